"""What comes of a command that prepares, whatever it does: a script of the test in its place."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sits.models import (
    ModelError,
    ModelPin,
    ModelStore,
    ModelStoreFull,
    ModelUnavailable,
    PullProgress,
)
from sits.spec import parse_model_reference
from sits.testing import tiny_gguf

WRITES = """
import json, pathlib, sys
out = pathlib.Path(sys.argv[-1])
(out / "m.gguf").write_bytes(b"expanded")
print("words before the record")
print(json.dumps({"representation": "BF16", "file": "m.gguf", "size_bytes": 8}))
"""


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., ModelStore]:
    def make(script: str, *words: str) -> ModelStore:
        path = tmp_path / "prepare.py"
        path.write_text(script, encoding="utf-8")
        return ModelStore(tmp_path / "store", prepare=(sys.executable, str(path), *words))

    return make


def pin(store: ModelStore, tmp_path: Path) -> ModelPin:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf())
    os.utime(path, (10**9, 10**9))
    return store.pin(parse_model_reference(f"file://{path}"))


def ignore(_progress: PullProgress) -> None:
    pass


def test_the_file_that_was_written_is_what_the_engine_gets(
    tmp_path: Path, make_store: Callable[..., ModelStore]
) -> None:
    store = make_store(WRITES)
    wanted = pin(store, tmp_path)
    file = store.pull(wanted, ignore)
    assert (file.path.read_bytes(), file.representation) == (b"expanded", "BF16")
    assert file.digest == wanted.digest


def test_it_stays_when_its_source_changes(
    tmp_path: Path, make_store: Callable[..., ModelStore]
) -> None:
    store = make_store(WRITES)
    wanted = pin(store, tmp_path)
    store.pull(wanted, ignore)
    (tmp_path / "m.gguf").write_bytes(b"GGUF of something else")
    assert store.find(wanted) is not None


def test_it_is_made_again_for_another_command(
    tmp_path: Path, make_store: Callable[..., ModelStore]
) -> None:
    store = make_store(WRITES)
    wanted = pin(store, tmp_path)
    store.pull(wanted, ignore)
    store.keep(tmp_path, [wanted.digest])
    other = make_store(WRITES, "--engine", "another")
    assert other.find(wanted) is None
    other.pull(wanted, ignore)
    assert store.find(wanted) is not None
    assert other.collect().models == ()
    assert (store.find(wanted), other.find(wanted) is not None) == (None, True)


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("import os; os.kill(os.getpid(), 9)", ModelUnavailable, "ended with signal 9"),
        ("raise SystemExit('no such thing')", ModelUnavailable, "status 1: no such thing"),
        ("print('no record')", ModelUnavailable, "gave no record"),
        (
            'print(\'{"representation": "X", "file": "../../m"}\')',
            ModelUnavailable,
            "no plain name",
        ),
        (
            'print(\'{"error": "not for me", "code": "model"}\'); raise SystemExit(1)',
            ModelError,
            "^not for me$",
        ),
        (
            'print(\'{"error": "no room", "code": "full"}\'); raise SystemExit(1)',
            ModelStoreFull,
            "^no room$",
        ),
    ],
)
def test_a_command_that_fails_leaves_nothing_in_place(
    tmp_path: Path,
    make_store: Callable[..., ModelStore],
    script: str,
    error: type[ModelError],
    words: str,
) -> None:
    store = make_store(script)
    wanted = pin(store, tmp_path)
    with pytest.raises(ModelError, match=words) as caught:
        store.pull(wanted, ignore)
    assert type(caught.value) is error
    assert store.find(wanted) is None
    assert list((tmp_path / "store" / "prepared" / wanted.digest[7:]).iterdir()) == []


def test_what_a_killed_preparation_left_is_removed_by_the_next(
    tmp_path: Path, make_store: Callable[..., ModelStore]
) -> None:
    store = make_store(WRITES)
    wanted = pin(store, tmp_path)
    left = tmp_path / "store" / "prepared" / wanted.digest[7:] / "tmp-0badcafe"
    left.mkdir(parents=True)
    (left / "m.gguf").write_bytes(bytes(1000))
    store.pull(wanted, ignore)
    assert not left.exists()
