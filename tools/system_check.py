"""Finds out what the system lacks, and says it in one line with the command that installs it.

Knows only what building the engine and making a virtual environment need. The compilers are
tried on a small program, because a compiler without its headers is there and does not work.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Find = Callable[[str], str | None]


@dataclass(frozen=True)
class Need:
    """Something that the system must have; `packages` is what it is called by each installer."""

    what: str
    packages: Mapping[str, str]


_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

VENV = Need("Python's venv module", {"apt-get": f"python{_PYTHON}-venv"})
C_COMPILER = Need(
    "a C compiler",
    {
        "apt-get": "gcc libc6-dev",
        "dnf": "gcc",
        "apk": "build-base",
        "pacman": "gcc",
        "zypper": "gcc",
    },
)
CXX_COMPILER = Need(
    "a C++ compiler",
    {"apt-get": "g++", "dnf": "gcc-c++", "apk": "build-base", "pacman": "gcc", "zypper": "gcc-c++"},
)

# Installers in the order in which they are looked for, with the words before the packages.
_INSTALLERS = {
    "apt-get": "apt-get install",
    "dnf": "dnf install",
    "apk": "apk add",
    "pacman": "pacman -S",
    "zypper": "zypper install",
}

_C_PROGRAM = "#include <stdio.h>\n#include <math.h>\nint main(void) { return 0; }\n"
_CXX_PROGRAM = "#include <thread>\n#include <vector>\nint main() { return 0; }\n"
# Variable, usual names, suffix of its sources, program to try it on.
_LANGUAGES = (
    ("CC", ("cc", "gcc", "clang"), ".c", _C_PROGRAM),
    ("CXX", ("c++", "g++", "clang++"), ".cc", _CXX_PROGRAM),
)


def missing_for_venv() -> list[Need]:
    """Return what a virtual environment cannot be made without (Debian splits it off)."""
    there = all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))
    return [] if there else [VENV]


def find_compilers(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the working compilers by the names that builds know them by, `CC` and `CXX`.

    Builds must be told: asked to choose, they take the name of the compiler that Python was
    built with, which may not be there.

    Args:
        environ: `CC` and `CXX` in it come before the usual names.
    """
    found = {}
    for name, usual, suffix, program in _LANGUAGES:
        candidates = [environ[name]] if environ.get(name) else usual
        compiler = next((path for each in candidates if (path := shutil.which(each))), None)
        if compiler is not None and _compiles(compiler, program, suffix):
            found[name] = compiler
    return found


def missing_for_engine(environ: Mapping[str, str] = os.environ) -> list[Need]:
    """Return which compilers are not there or do not work (see `find_compilers`)."""
    found = find_compilers(environ)
    needs = {"CC": C_COMPILER, "CXX": CXX_COMPILER}
    return [need for name, need in needs.items() if name not in found]


def _compiles(compiler: str, program: str, suffix: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, f"program{suffix}")
        source.write_text(program, encoding="utf-8")
        command = [compiler, str(source), "-o", str(Path(folder, "program"))]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def describe_missing(needs: Sequence[Need], *, find: Find = shutil.which, is_root: bool) -> str:
    """Say what is missing and which command installs it, in one line.

    Args:
        needs: what is missing, at least one.
        find: tells where a program is, as `shutil.which`.
        is_root: whether the person can do without `sudo`.
    """
    what = " and ".join(need.what for need in needs)
    return f"sits needs {what}: {_advice(needs, find, is_root=is_root)}"


def _advice(needs: Sequence[Need], find: Find, *, is_root: bool) -> str:
    for installer, words in _INSTALLERS.items():
        if not find(installer):
            continue
        packages = [need.packages.get(installer) for need in needs]
        if all(packages):
            names = dict.fromkeys(name for group in packages for name in str(group).split())
            return f"{'' if is_root else 'sudo '}{words} {' '.join(names)}"
    if sys.platform == "darwin":
        return "xcode-select --install"
    return "install it with your system's package manager"
