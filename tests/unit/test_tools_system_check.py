from collections.abc import Callable
from pathlib import Path

import pytest

from system_check import (
    C_COMPILER,
    CXX_COMPILER,
    VENV,
    Need,
    describe_missing,
    find_compilers,
    missing_for_engine,
)


def only(installer: str) -> Callable[[str], str | None]:
    return lambda name: f"/usr/bin/{name}" if name == installer else None


@pytest.mark.parametrize(
    ("installer", "line"),
    [
        ("apt-get", "sits needs a C++ compiler: sudo apt-get install g++"),
        ("dnf", "sits needs a C++ compiler: sudo dnf install gcc-c++"),
        ("apk", "sits needs a C++ compiler: sudo apk add build-base"),
    ],
)
def test_names_what_is_missing_and_the_command_in_one_line(installer: str, line: str) -> None:
    assert describe_missing([CXX_COMPILER], find=only(installer), is_root=False) == line


def test_root_needs_no_sudo_and_packages_are_named_once() -> None:
    line = describe_missing([C_COMPILER, CXX_COMPILER], find=only("apk"), is_root=True)

    assert line == "sits needs a C compiler and a C++ compiler: apk add build-base"


def test_debian_splits_the_venv_module_off() -> None:
    line = describe_missing([VENV], find=only("apt-get"), is_root=True)

    assert line.startswith("sits needs Python's venv module: apt-get install python3.")
    assert line.endswith("-venv")


def test_an_unknown_system_gets_words_instead_of_a_wrong_command() -> None:
    line = describe_missing([Need("x", {})], find=only("no-such-installer"), is_root=True)

    assert line.startswith("sits needs x: ")
    assert "apt-get" not in line


def test_a_compiler_that_does_not_compile_counts_as_missing(tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)

    missing = missing_for_engine({"CC": str(broken), "CXX": str(tmp_path / "not-there")})

    assert missing == [C_COMPILER, CXX_COMPILER]


def test_finds_compilers_by_their_usual_names_where_python_was_built_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cc", "clang++"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_compilers({}) == {"CC": str(tmp_path / "cc"), "CXX": str(tmp_path / "clang++")}
