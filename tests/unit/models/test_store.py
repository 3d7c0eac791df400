"""The store on files of this machine, with nothing prepared: no process, no network."""

import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from sits.models import (
    ModelError,
    ModelKind,
    ModelPin,
    ModelStore,
    ModelStoreFull,
    ModelUnavailable,
    PullProgress,
)
from sits.models import _inventory as inventory
from sits.models import _prepare as preparing
from sits.models import _sources as sources
from sits.models import _store as stores
from sits.models._locks import hold, hold_nowait
from sits.models._records import PreparedRecord
from sits.spec import parse_model_reference
from sits.testing import tiny_gguf

LONG_AGO = 1_000_000_000


def make_store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", prepare=None)


def make_file(path: Path, data: bytes | None = None) -> Path:
    path.write_bytes(tiny_gguf() if data is None else data)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def pin_file(store: ModelStore, path: Path) -> ModelPin:
    return store.pin(parse_model_reference(f"file://{path}"))


def pull(store: ModelStore, pin: ModelPin) -> list[PullProgress]:
    told: list[PullProgress] = []
    store.pull(pin, told.append)
    return told


def sha256sum(data: bytes) -> str:
    """The digest as another program gives it."""
    out = subprocess.run(["sha256sum"], input=data, capture_output=True, check=True).stdout
    return out.split()[0].decode()


def test_a_file_is_pinned_by_its_bytes(tmp_path: Path) -> None:
    path = make_file(tmp_path / "m.gguf")
    pin = pin_file(make_store(tmp_path), path)
    assert pin.digest == f"sha256:{sha256sum(path.read_bytes())}"
    assert (pin.size_bytes, pin.kind) == (path.stat().st_size, ModelKind.CHAT)
    assert (pin.commit, pin.file) == (None, None)


def test_the_store_is_open_to_its_user_alone(tmp_path: Path) -> None:
    pin_file(make_store(tmp_path), make_file(tmp_path / "m.gguf"))
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


def test_what_is_pinned_is_found_after_it_was_pulled(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    path = make_file(tmp_path / "m.gguf", tiny_gguf("bert"))
    pin = pin_file(store, path)
    assert store.find(pin) is None
    assert [progress.state for progress in pull(store, pin)] == ["done"]
    found = store.find(pin)
    assert found is not None
    assert found.path.read_bytes() == path.read_bytes()
    assert (found.name, found.kind, found.digest) == ("m", ModelKind.EMBEDDING, pin.digest)


def test_two_paths_of_the_same_bytes_are_one_model(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    one, other = (pin_file(store, make_file(tmp_path / f"{name}.gguf")) for name in "ab")
    pull(store, one)
    first, second = store.find(one), store.find(other)
    assert first is not None
    assert second is not None
    assert first.path == second.path
    assert (first.name, second.name) == ("a", "b")


def test_a_model_stays_when_its_file_is_removed(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    path = make_file(tmp_path / "m.gguf")
    pin = pin_file(store, path)
    pull(store, pin)
    path.unlink()
    assert store.find(pin) is not None


def test_a_file_that_cannot_be_linked_is_used_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_link", lambda _source, _target: False)
    monkeypatch.setattr(sources, "_clone", lambda _source, _target: False)
    store = make_store(tmp_path)
    path = make_file(tmp_path / "m.gguf")
    pin = pin_file(store, path)
    pull(store, pin)
    found = store.find(pin)
    assert found is not None
    assert found.path == path


def test_a_file_that_changed_after_it_was_taken_in_has_to_be_deployed_again(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    path = make_file(tmp_path / "m.gguf")
    pin = pin_file(store, path)
    pull(store, pin)
    with path.open("r+b") as stream:  # in place: a hard link sees it
        stream.write(b"GGUX")
    assert store.find(pin) is None
    with pytest.raises(ModelError, match=r"another file than when it was deployed.*deploy again"):
        pull(store, pin)


def test_a_file_that_changed_before_it_was_taken_in_is_not_taken(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    path = make_file(tmp_path / "m.gguf")
    pin = pin_file(store, path)
    make_file(path, tiny_gguf(padding_bytes=1))
    told: list[PullProgress] = []
    with pytest.raises(ModelError, match="deploy again"):
        store.pull(pin, told.append)
    assert (told[-1].state, told[-1].retryable) == ("failed", False)
    assert pin_file(store, path).digest != pin.digest


def test_a_file_is_read_once_while_it_looks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    path = make_file(tmp_path / "m.gguf")
    first = pin_file(store, path)

    def fail(_stream: object, _name: str) -> None:
        raise AssertionError("hashed again")

    monkeypatch.setattr("hashlib.file_digest", fail)
    assert pin_file(store, path).digest == first.digest


def test_a_file_just_written_is_read_again_since_its_time_may_not_tell(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf())
    first = pin_file(store, path)
    look = path.stat()
    path.write_bytes(tiny_gguf("bert")[: look.st_size].ljust(look.st_size, b"\0"))
    os.utime(path, ns=(look.st_atime_ns, look.st_mtime_ns))
    assert pin_file(store, path).digest != first.digest


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("text", "another kind of file"),
        ("folder", "not a regular file|Is a directory"),
        ("pipe", "not a regular file"),
        ("absent", "No such file"),
        ("loop", "cannot be read"),
        ("t5", "architecture 't5'"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, name: str, words: str) -> None:
    make_file(tmp_path / "text.gguf", b"hello, this is no model")
    make_file(tmp_path / "t5.gguf", tiny_gguf("t5"))
    (tmp_path / "folder.gguf").mkdir()
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "loop.gguf")
    with pytest.raises(ModelError, match=words) as caught:
        pin_file(make_store(tmp_path), tmp_path / f"{name}.gguf")
    assert not caught.value.retryable


def test_a_model_served_elsewhere_has_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="engine: openai"):
        make_store(tmp_path).pin(parse_model_reference("openai://gpt-4o"))


def test_a_pin_with_a_digest_of_another_form_is_refused(tmp_path: Path) -> None:
    pin = ModelPin("builtin://x", "sha256:../../etc/passwd", 1, ModelKind.CHAT)
    with pytest.raises(ModelError, match="64 hex digits"):
        make_store(tmp_path).find(pin)


def test_what_is_needed_is_kept_and_the_rest_collected(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    needed = pin_file(store, make_file(tmp_path / "needed.gguf"))
    other = pin_file(store, make_file(tmp_path / "other.gguf", tiny_gguf(padding_bytes=9)))
    pull(store, needed)
    pull(store, other)
    home = tmp_path / "home"
    home.mkdir()
    store.keep(home, [needed.digest])
    would = store.collect(dry_run=True)
    assert [model.digest for model in would.models] == [other.digest]
    assert store.find(other) is not None
    assert store.collect().models == would.models
    assert (store.find(needed) is not None, store.find(other)) == (True, None)
    [left] = store.list_models()
    assert (left.references, left.needed_by) == ((needed.reference,), (str(home),))


def test_a_platform_whose_home_is_gone_needs_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    pull(store, pin)
    store.keep(tmp_path / "gone", [pin.digest])
    assert [model.digest for model in store.collect().models] == [pin.digest]


def test_what_a_platform_needs_is_replaced_not_added_to(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    pull(store, pin)
    store.keep(tmp_path, [pin.digest])
    store.keep(tmp_path, [])
    assert store.list_models()[0].needed_by == ()


def test_nothing_is_collected_while_it_is_not_known_what_is_needed(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    pull(store, pin)
    store.keep(tmp_path, [pin.digest])
    [record] = (tmp_path / "store" / "owners").iterdir()
    record.write_bytes(b"{")
    with pytest.raises(ModelError, match="not known what its platform needs"):
        store.collect()
    assert store.find(pin) is not None


def test_a_model_is_removed_by_reference_or_digest(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    for name in (pin.reference, pin.digest, pin.digest[7:19]):
        pull(store, pin_file(store, tmp_path / "m.gguf"))
        assert store.remove(name).digest == pin.digest
        assert store.list_models() == []
    assert (tmp_path / "m.gguf").exists()


def test_what_is_needed_or_not_there_is_not_removed(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    pull(store, pin)
    store.keep(tmp_path, [pin.digest])
    with pytest.raises(ModelError, match=f"needed by the units of {tmp_path}"):
        store.remove(pin.reference)
    with pytest.raises(ModelError, match="no model here"):
        store.remove("builtin://none")
    with pytest.raises(ModelError, match="no model here"):
        store.remove(pin.digest[7:9])
    assert store.find(pin) is not None


def test_old_downloads_are_collected_and_young_ones_left(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    pin_file(store, make_file(tmp_path / "m.gguf"))
    old, young = (tmp_path / "store" / "partial" / f"{c * 64}.part" for c in "ab")
    old.write_bytes(bytes(1000))
    young.write_bytes(bytes(10))
    os.utime(old, (LONG_AGO, LONG_AGO))
    assert store.collect().freed_bytes >= 1000
    assert (old.exists(), young.exists()) == (False, True)


def test_a_full_disk_is_told_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    path = make_file(tmp_path / "m.gguf")
    pin = pin_file(store, path)

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(ModelStoreFull, match="is full; free some room"):
            pull(store, pin)
    assert store.find(pin) is None
    pull(store, pin)
    assert store.find(pin) is not None


def test_a_full_disk_keeps_nobody_from_a_model_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    here, new = make_file(tmp_path / "m.gguf"), make_file(tmp_path / "n.gguf", tiny_gguf("bert"))
    pin = pin_file(store, here)
    pull(store, pin)

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert pin_file(store, here) == pin
    with pytest.raises(ModelStoreFull):
        pin_file(store, new)


def test_what_is_no_directory_is_not_a_store_without_models(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the directory should be")
    with pytest.raises(ModelUnavailable, match="cannot be used"):
        make_store(tmp_path).list_models()


def test_a_store_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the directory should be")
    with pytest.raises(ModelUnavailable, match="cannot be used"):
        pin_file(make_store(tmp_path), make_file(tmp_path / "m.gguf"))


def test_the_command_that_pulls_has_everything_but_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    store = make_store(tmp_path)
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    command = store.pull_command(pin)
    assert command[1:4] == ("-m", "sits.models", "pull")
    assert msgspec.json.decode(command[4])["pin"]["digest"] == pin.digest
    assert "hf_secret" not in " ".join(command)


def between_list_and_discard(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have something happen after a collection has looked, before it removes."""

    def acting(path: Path) -> AbstractContextManager[bool]:
        act()
        return hold_nowait(path)

    monkeypatch.setattr(inventory, "hold_nowait", acting)


def test_what_is_kept_while_it_is_being_collected_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    pull(store, pin)
    between_list_and_discard(monkeypatch, lambda: store.keep(tmp_path, [pin.digest]))
    assert store.collect().models == ()
    assert store.find(pin) is not None


def test_what_is_kept_while_it_is_being_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    pull(store, pin)
    between_list_and_discard(monkeypatch, lambda: store.keep(tmp_path, [pin.digest]))
    with pytest.raises(ModelError, match="needed by the units of"):
        store.remove(pin.reference)
    assert store.find(pin) is not None


def test_what_is_needed_is_written_only_where_it_changed(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    digests = [f"sha256:{c * 64}" for c in "ab"]
    store.keep(tmp_path, digests)
    [record] = (tmp_path / "store" / "owners").iterdir()
    before = record.stat()
    store.keep(tmp_path, reversed(digests))
    assert record.stat().st_ino == before.st_ino
    assert record.stat().st_mtime_ns == before.st_mtime_ns
    store.keep(tmp_path, digests[:1])
    assert record.stat().st_ino != before.st_ino


def test_a_model_that_another_process_took_in_meanwhile_is_not_prepared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ModelStore(tmp_path / "store", prepare=("prepare",))
    pin = pin_file(store, make_file(tmp_path / "m.gguf"))
    prepared: list[Path] = []

    def prepare(_command: object, source: Path, _out: Path) -> PreparedRecord:
        prepared.append(source)
        return PreparedRecord("Q4_1")

    monkeypatch.setattr(preparing, "_run", prepare)

    def waiting(path: Path, on_wait: Callable[[], None]) -> AbstractContextManager[None]:
        monkeypatch.setattr(stores, "hold", hold)
        store.pull(pin, lambda _progress: None)  # the other one
        return hold(path, on_wait)

    monkeypatch.setattr(stores, "hold", waiting)
    assert pull(store, pin)[-1].state == "done"
    assert len(prepared) == 1
