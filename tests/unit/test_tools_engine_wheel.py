import dataclasses
import fcntl
import threading
import zipfile
from pathlib import Path

import pytest

from engine_wheel import (
    EngineBuildError,
    Recipe,
    cache_folder,
    cached_wheel,
    ensure_wheel,
    parse_cpu_features,
)

RECIPE = Recipe(version="1.2", flags=("-DA=ON",), cpu="avx2 sse", platform="Linux x86_64 glibc")
WHEEL = "engine-1.2-py3-none-any.whl"


def build_whole_wheel(workplace: Path) -> None:
    with zipfile.ZipFile(workplace / "wheel" / WHEEL, "w") as archive:
        archive.writestr("engine.so", "code")


def build_must_not_run(workplace: Path) -> None:
    pytest.fail(f"a build was started in {workplace}")


def say_nothing(text: str) -> None:
    pass


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_builds_once_and_finds_the_wheel_again(tmp_path: Path) -> None:
    built = ensure_wheel(tmp_path, RECIPE, build_whole_wheel, say_nothing)

    assert built == tmp_path / RECIPE.key / WHEEL
    assert ensure_wheel(tmp_path, RECIPE, build_must_not_run, say_nothing) == built


def test_the_key_depends_on_everything_that_the_code_depends_on() -> None:
    changed = [
        dataclasses.replace(RECIPE, version="1.3"),
        dataclasses.replace(RECIPE, flags=("-DA=OFF",)),
        dataclasses.replace(RECIPE, cpu="sse"),
        dataclasses.replace(RECIPE, platform="Linux x86_64 musl"),
    ]

    assert len({recipe.key for recipe in [RECIPE, *changed]}) == 5
    assert dataclasses.replace(RECIPE).key == RECIPE.key


def test_a_failed_build_leaves_nothing_that_is_believed(tmp_path: Path) -> None:
    def build(workplace: Path) -> None:
        build_whole_wheel(workplace)
        raise EngineBuildError("no compiler")

    with pytest.raises(EngineBuildError, match="no compiler"):
        ensure_wheel(tmp_path, RECIPE, build, say_nothing)

    assert cached_wheel(tmp_path, RECIPE) is None
    assert names_in(tmp_path) == {f"{RECIPE.key}.lock"}


def test_a_half_written_wheel_is_refused(tmp_path: Path) -> None:
    def build(workplace: Path) -> None:
        (workplace / "wheel" / WHEEL).write_bytes(b"PK\x03\x04 and then the power went")

    with pytest.raises(EngineBuildError, match="expected one wheel"):
        ensure_wheel(tmp_path, RECIPE, build, say_nothing)

    assert cached_wheel(tmp_path, RECIPE) is None


def test_what_a_killed_build_left_is_removed_and_not_used(tmp_path: Path) -> None:
    left_over = tmp_path / f".build-{RECIPE.key}-1"
    (left_over / "wheel").mkdir(parents=True)
    (left_over / "wheel" / WHEEL).write_bytes(b"half")

    ensure_wheel(tmp_path, RECIPE, build_whole_wheel, say_nothing)

    assert names_in(tmp_path) == {RECIPE.key, f"{RECIPE.key}.lock"}


def test_a_second_make_says_that_it_waits_and_takes_what_the_first_built(tmp_path: Path) -> None:
    said: list[str] = []
    waiting = threading.Event()
    found: list[Path] = []

    def say(text: str) -> None:
        said.append(text)
        waiting.set()

    def second_make() -> None:
        found.append(ensure_wheel(tmp_path, RECIPE, build_must_not_run, say))

    with (tmp_path / f"{RECIPE.key}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=second_make)
        thread.start()
        assert waiting.wait(timeout=10)
        (tmp_path / RECIPE.key).mkdir()
        (tmp_path / RECIPE.key / WHEEL).touch()
        fcntl.flock(lock, fcntl.LOCK_UN)
        thread.join(timeout=10)

    assert said == ["another make builds the engine already: waiting for it"]
    assert found == [tmp_path / RECIPE.key / WHEEL]


@pytest.mark.parametrize(
    ("cpuinfo", "features"),
    [
        ("model name\t: X\nflags\t\t: sse2 avx512f aes\n\nflags\t\t: other\n", "aes avx512f sse2"),
        ("processor\t: 0\nFeatures\t: fp asimd\n", "asimd fp"),
        ("no such line\n", ""),
    ],
)
def test_reads_the_features_of_the_first_processor_in_order(cpuinfo: str, features: str) -> None:
    assert parse_cpu_features(cpuinfo) == features


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"SITS_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, Path("/c/engine")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/sits/engine")),
        ({}, Path.home() / ".cache/sits/engine"),
    ],
)
def test_the_cache_lies_outside_the_checkout(environ: dict[str, str], folder: Path) -> None:
    assert cache_folder(environ) == folder
