"""The store on disk: how it is made, and what it refuses to open."""

import contextlib
import errno
import resource
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.store import KeyEntry, Store, StoreError, StoreFull, StoreUnavailable, open_store
from tests.unit.store.faults import fill, lose_patience, make_read_only, make_room, make_writable
from tests.unit.store.rows import stored_revisions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sits.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = open_store(path)
    yield opened
    opened.close()


def put(store: Store, revision: str, now_s: float = 1.0, name: str = "chat") -> None:
    store.put_unit("t", name, revision=revision, spec_json=f"{{{revision}}}", now_s=now_s)


def test_only_the_owner_can_read_the_database_and_its_companions(store: Store, path: Path) -> None:
    put(store, "r1")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes.keys() >= {"sits.db", "sits.db-wal"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_deploy_is_on_disk_when_it_returns(store: Store, path: Path) -> None:
    pragmas = store._engine.connect().exec_driver_sql  # the connection that is always there
    assert pragmas("PRAGMA journal_mode").scalar() == "wal"
    assert pragmas("PRAGMA synchronous").scalar() == 2  # FULL
    assert pragmas("PRAGMA foreign_keys").scalar() == 1


def test_what_was_put_is_there_after_reopening(path: Path) -> None:
    first = open_store(path)
    put(first, "r1")
    first.add_key(KeyEntry("k1", "hash", "t", "local", 1.0))
    first.close()
    second = open_store(path)
    (unit,) = second.units()
    assert (unit.tenant, unit.name, unit.revision, unit.spec_json) == ("t", "chat", "r1", "{r1}")
    assert [key.key_id for key in second.keys_in_force()] == ["k1"]
    second.close()


def test_epochs_increase_over_restarts(path: Path) -> None:
    epochs = []
    for _ in range(3):
        opened = open_store(path)
        epochs += [opened.next_epoch(), opened.next_epoch()]
        opened.close()
    assert epochs == [1, 2, 3, 4, 5, 6]


def test_the_same_revision_again_changes_nothing(store: Store) -> None:
    first = store.put_unit("t", "chat", revision="r1", spec_json="{}", now_s=1.0)
    again = store.put_unit("t", "chat", revision="r1", spec_json="{}", now_s=2.0)
    assert (first.created, again.created) == (True, False)
    assert again.unit == first.unit


def test_going_back_to_an_earlier_revision_keeps_it_as_it_was(store: Store) -> None:
    put(store, "r1", 1.0)
    put(store, "r2", 2.0)
    put(store, "r1", 3.0)
    (unit,) = store.units()
    assert (unit.revision, unit.created_s, unit.updated_s) == ("r1", 1.0, 3.0)
    assert stored_revisions(store, "t", "chat") == [("r1", 1.0), ("r2", 2.0)]


def test_a_deploy_undoes_a_deletion_and_begins_a_new_life(store: Store) -> None:
    put(store, "r1", 1.0)
    assert store.delete_unit("t", "chat", 2.0)
    assert not store.delete_unit("t", "chat", 3.0)
    result = store.put_unit("t", "chat", revision="r1", spec_json="{r1}", now_s=4.0)
    assert (result.created, result.unit.created_s, result.unit.deleted_s) == (True, 4.0, None)
    assert not store.purge_unit("t", "chat")


def test_revisions_outlive_their_unit(store: Store) -> None:
    put(store, "r1")
    store.delete_unit("t", "chat", 2.0)
    assert store.purge_unit("t", "chat")
    assert store.unit("t", "chat") is None
    assert stored_revisions(store, "t", "chat") == [("r1", 1.0)]


def test_a_revision_whose_text_was_damaged_is_mended_by_a_deploy(store: Store) -> None:
    store.put_unit("t", "chat", revision="r1", spec_json="{", now_s=1.0)
    mended = store.put_unit("t", "chat", revision="r1", spec_json="{r1}", now_s=2.0)
    assert (mended.unit.spec_json, mended.unit.updated_s) == ("{r1}", 1.0)
    assert stored_revisions(store, "t", "chat") == [("r1", 1.0)]


def test_tenants_units_of_the_same_name_are_different_ones(store: Store) -> None:
    put(store, "r1")
    store.put_unit("other", "chat", revision="r2", spec_json="{}", now_s=1.0)
    store.delete_unit("other", "chat", 2.0)
    unit = store.unit("t", "chat")
    assert unit is not None
    assert (unit.revision, unit.deleted_s) == ("r1", None)


def test_a_key_alone_revokes_the_others_of_its_name(store: Store) -> None:
    store.add_key(KeyEntry("k1", "h1", "t", "local", 1.0))
    store.add_key(KeyEntry("k2", "h2", "t", "other", 1.0))
    store.add_key(KeyEntry("k3", "h3", "t", "local", 2.0), alone=True)
    assert [key.key_id for key in store.keys_in_force()] == ["k2", "k3"]
    revoked = store.key("k1")
    assert revoked is not None
    assert revoked.revoked_s == 2.0


def test_a_key_id_is_taken_once_and_the_others_stay_in_force(store: Store) -> None:
    store.add_key(KeyEntry("k1", "h1", "t", "local", 1.0))
    with pytest.raises(StoreError, match="'k1'; make another"):
        store.add_key(KeyEntry("k1", "h2", "t", "local", 2.0), alone=True)
    assert [key.secret_hash for key in store.keys_in_force()] == ["h1"]


def test_a_secrets_hash_is_not_in_the_repr() -> None:
    assert "hash" not in repr(KeyEntry("k1", "deadbeef", "t", "local", 1.0)).replace("_hash", "")
    assert "deadbeef" not in repr(KeyEntry("k1", "deadbeef", "t", "local", 1.0))


def test_a_unit_cannot_point_at_a_revision_that_is_not_there(store: Store, path: Path) -> None:
    put(store, "r1")
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = ON")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE units SET revision = 'r9'")
    connection.close()


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    open_store(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = 99 WHERE name = 'schema_version'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="layout 99; this version knows 1"):
        open_store(path)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sits.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="move it away"):
        open_store(path)
    assert path.read_bytes() == b"not a database" * 100


def test_a_damaged_database_is_refused(path: Path) -> None:
    opened = open_store(path)
    for number in range(40):
        put(opened, f"r{number}", name=f"unit-{number}")
    opened.close()
    data = bytearray(path.read_bytes())
    data[8192:20000] = b"\xff" * (20000 - 8192)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="move it away"):
        open_store(path)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "sits.db")
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="not a store of SITS"):
        open_store(tmp_path / "sits.db")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="SITS_HOME"):
        open_store(tmp_path / "file" / "sits.db")


BIG = "x" * 100_000


def put_big(store: Store) -> None:
    store.put_unit("t", "big", revision="r1", spec_json=BIG, now_s=1.0)


@contextlib.contextmanager
def files_cannot_grow() -> Iterator[None]:
    """Have every write past a file's size fail with an I/O error, as on a broken disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def held_lock(path: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def test_a_full_disk_is_named_and_keeps_nothing_of_what_was_written(
    store: Store, path: Path
) -> None:
    put(store, "r1")
    fill(store)
    with pytest.raises(StoreFull, match="disk is full") as caught:
        put_big(store)
    assert str(path) in str(caught.value)
    assert (caught.value.http_status, caught.value.retryable) == (507, True)
    assert [unit.name for unit in store.units()] == ["chat"]
    assert not stored_revisions(store, "t", "big")
    make_room(store)
    put_big(store)
    assert [unit.name for unit in store.units()] == ["big", "chat"]


def test_a_store_that_cannot_be_written_is_named(store: Store, path: Path) -> None:
    make_read_only(store)
    with pytest.raises(StoreUnavailable, match="cannot be written") as caught:
        put(store, "r1")
    assert str(path) in str(caught.value)
    assert (caught.value.http_status, caught.value.retryable) == (503, True)
    make_writable(store)
    assert store.units() == ()


def test_an_error_of_the_disk_keeps_nothing_and_passes(store: Store, path: Path) -> None:
    put(store, "r1")
    with files_cannot_grow(), pytest.raises(StoreUnavailable) as caught:
        put_big(store)
    assert str(path) in str(caught.value)
    assert "I/O error" in str(caught.value)
    assert not stored_revisions(store, "t", "big")
    put_big(store)
    assert stored_revisions(store, "t", "big")


def test_a_lock_that_another_process_holds_is_named(store: Store, path: Path) -> None:
    lose_patience(store)
    with held_lock(path):
        for ask in (
            lambda: put(store, "r1"),
            lambda: store.add_key(KeyEntry("k1", "h1", "t", "local", 1.0)),
            store.units,
            store.next_epoch,
        ):
            with pytest.raises(StoreUnavailable, match="locked"):
                ask()
    put(store, "r1")


def test_no_passing_fault_tells_to_move_the_store_away_when_it_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(path).close()
    monkeypatch.setattr("sits.store._open._BUSY_TIMEOUT_MS", 0)
    with held_lock(path), pytest.raises(StoreUnavailable, match="locked") as caught:
        open_store(path)
    assert "move it away" not in str(caught.value)


def test_a_disk_too_full_to_make_the_store_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sits.store._open.os.open", full)
    with pytest.raises(StoreFull, match="free some space"):
        open_store(path)
