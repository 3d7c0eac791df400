"""The local key: made, kept, known to the store, readable by its owner alone."""

import errno
import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.control._errors import KeyFileError
from sits.control._keys import ensure_local_key
from sits.store import KeyEntry, Store, open_store
from sits.trust import make_key, parse_key, verify


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "sits.db")
    yield opened
    opened.close()


def key_text(home: Path) -> str:
    return (home / "key").read_text().strip()


def is_in_force(store: Store, text: str) -> bool:
    return verify(text, {key.key_id: key for key in store.keys_in_force()}) is not None


def test_the_first_start_makes_a_key_that_works_and_only_its_owner_reads(
    store: Store, tmp_path: Path
) -> None:
    ensure_local_key(store, tmp_path, 1.0)
    assert is_in_force(store, key_text(tmp_path))
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    (entry,) = store.keys_in_force()
    assert (entry.tenant, entry.name) == ("default", "local")


def test_later_starts_keep_it(store: Store, tmp_path: Path) -> None:
    ensure_local_key(store, tmp_path, 1.0)
    before = key_text(tmp_path)
    ensure_local_key(store, tmp_path, 2.0)
    assert key_text(tmp_path) == before
    assert len(store.keys_in_force()) == 1


def test_a_removed_file_means_a_new_key_and_the_old_one_is_revoked(
    store: Store, tmp_path: Path
) -> None:
    ensure_local_key(store, tmp_path, 1.0)
    old = key_text(tmp_path)
    (tmp_path / "key").unlink()
    ensure_local_key(store, tmp_path, 2.0)
    assert not is_in_force(store, old)
    assert is_in_force(store, key_text(tmp_path))


def test_a_key_that_the_store_does_not_know_is_registered(store: Store, tmp_path: Path) -> None:
    text = make_key().text
    (tmp_path / "key").write_text(text + "\n")
    (tmp_path / "key").chmod(0o600)
    ensure_local_key(store, tmp_path, 1.0)
    assert key_text(tmp_path) == text
    assert is_in_force(store, text)


def test_a_revoked_key_is_replaced(store: Store, tmp_path: Path) -> None:
    ensure_local_key(store, tmp_path, 1.0)
    old = key_text(tmp_path)
    store.add_key(KeyEntry("other", "hash", "default", "local", 2.0), alone=True)
    ensure_local_key(store, tmp_path, 3.0)
    assert not is_in_force(store, old)
    assert is_in_force(store, key_text(tmp_path))


def test_a_key_that_others_can_read_is_closed_with_a_warning_that_does_not_tell_it(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        ensure_local_key(store, tmp_path, 1.0)
        (tmp_path / "key").chmod(0o644)
        ensure_local_key(store, tmp_path, 2.0)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    parsed = parse_key(key_text(tmp_path))
    assert parsed is not None
    assert parsed[1] not in caplog.text


def test_a_file_that_holds_no_key_is_refused_and_left_alone(store: Store, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hello\n")
    with pytest.raises(KeyFileError, match="remove the file") as caught:
        ensure_local_key(store, tmp_path, 1.0)
    assert "hello" not in str(caught.value)
    assert (tmp_path / "key").read_text() == "hello\n"


def test_another_secret_under_a_known_id_is_refused(store: Store, tmp_path: Path) -> None:
    ensure_local_key(store, tmp_path, 1.0)
    (tmp_path / "key").write_text(key_text(tmp_path) + "x\n")
    with pytest.raises(KeyFileError, match="another secret"):
        ensure_local_key(store, tmp_path, 2.0)


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_is_no_regular_file_is_refused(store: Store, tmp_path: Path, kind: str) -> None:
    if kind == "link":
        (tmp_path / "target").write_text(make_key().text)
        (tmp_path / "key").symlink_to(tmp_path / "target")
    else:
        (tmp_path / "key").mkdir()
    with pytest.raises(KeyFileError, match="remove it"):
        ensure_local_key(store, tmp_path, 1.0)


def test_a_start_that_was_killed_while_writing_leaves_nothing_in_the_way(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / ".key.new").write_text("sk-sits-half")
    ensure_local_key(store, tmp_path, 1.0)
    assert is_in_force(store, key_text(tmp_path))


def test_a_key_that_cannot_be_written_is_said_and_made_by_the_next_start(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sits.control._keys.os.fsync", full)
        with pytest.raises(KeyFileError, match="No space left on device; free some space"):
            ensure_local_key(store, tmp_path, 1.0)
    assert not (tmp_path / "key").exists()
    ensure_local_key(store, tmp_path, 2.0)
    assert is_in_force(store, key_text(tmp_path))
    assert len(store.keys_in_force()) == 1
