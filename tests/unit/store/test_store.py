"""The store on disk: how it is made, and what it refuses to open."""

import contextlib
import errno
import resource
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.store import (
    KeyEntry,
    RevisionRecord,
    Store,
    StoreError,
    StoreFull,
    StoreUnavailable,
    open_store,
)
from tests.unit.store.faults import fill, lose_patience, make_read_only, make_room, make_writable
from tests.unit.store.rows import make_first_layout, make_revision


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sits.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = open_store(path)
    yield opened
    opened.close()


def put(store: Store, revision: str, now_s: float = 1.0, name: str = "chat") -> None:
    store.put_unit("t", name, make_revision(revision, now_s), now_s=now_s)


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
    connection.execute("UPDATE alembic_version SET version_num = '0099'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="layout 0099; this version knows 0002"):
        open_store(path)


def test_a_store_of_a_later_first_layout_is_refused(path: Path) -> None:
    make_first_layout(path, layout=7)
    with pytest.raises(StoreError, match="layout 7; this version knows 0002"):
        open_store(path)


def test_a_store_of_the_first_layout_is_brought_forward_with_all_that_it_has(path: Path) -> None:
    make_first_layout(path)
    store = open_store(path)
    (unit,) = store.units()
    assert (unit.wanted.revision, unit.wanted.spec_json, unit.wanted.pin_json) == ("r1", "{}", None)
    assert unit.serving == unit.wanted
    assert [(route.revision, route.cause) for route in store.routes("t", "chat")] == [
        ("r1", "deploy")
    ]
    assert [key.key_id for key in store.keys_in_force()] == ["k1"]
    assert store.next_epoch() == 6
    store.close()
    open_store(path).close()


def test_a_store_that_was_brought_forward_has_the_layout_of_a_new_one(tmp_path: Path) -> None:
    make_first_layout(tmp_path / "old" / "sits.db")
    shapes = []
    for name in ("old", "new"):
        open_store(tmp_path / name / "sits.db").close()
        with contextlib.closing(sqlite3.connect(tmp_path / name / "sits.db")) as connection:
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
            shapes.append(
                {
                    table: sorted(
                        row[1:] for row in connection.execute(f"PRAGMA table_info({table})")
                    )
                    for table in tables
                }
            )
    # Where a column stands in a row differs, and nothing asks for it.
    assert shapes[0] == shapes[1]


def test_a_crash_while_it_is_brought_forward_leaves_the_former_layout(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_first_layout(path)
    before = path.read_bytes()

    def crash(*_args: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("alembic.op.execute", crash)
    with pytest.raises(KeyboardInterrupt):
        open_store(path)
    monkeypatch.undo()
    assert len(path.read_bytes()) == len(before)
    store = open_store(path)
    assert [unit.name for unit in store.units()] == ["chat"]
    store.close()


def test_a_url_that_is_no_database_is_refused_without_being_repeated(tmp_path: Path) -> None:
    for url, words in (
        ("mysql://me:hush@host/db", "expected postgresql://"),
        ("hush", "cannot be read"),
    ):
        with pytest.raises(StoreError, match=words) as caught:
            open_store(tmp_path / "sits.db", url)
        assert "hush" not in str(caught.value)


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
    store.put_unit("t", "big", RevisionRecord("r1", BIG, 1.0), now_s=1.0)


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
    assert not store.revisions("t", "big")
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
    assert not store.revisions("t", "big")
    put_big(store)
    assert store.revisions("t", "big")


def test_a_lock_that_another_process_holds_is_named(store: Store, path: Path) -> None:
    lose_patience(store)
    with held_lock(path):
        for ask in (
            lambda: put(store, "r1"),
            lambda: store.add_key(KeyEntry("k1", "h1", "t", "local", 1.0)),
            store.next_epoch,
        ):
            with pytest.raises(StoreUnavailable, match="locked"):
                ask()
        assert store.units() == ()  # to read, nobody waits for a writer
    put(store, "r1")


def test_no_passing_fault_tells_to_move_the_store_away_when_it_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(path).close()
    monkeypatch.setattr("sits.store._sqlite._BUSY_TIMEOUT_MS", 0)
    with held_lock(path), pytest.raises(StoreUnavailable, match="locked") as caught:
        open_store(path)
    assert "move it away" not in str(caught.value)


def test_a_disk_too_full_to_make_the_store_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sits.store._sqlite.os.open", full)
    with pytest.raises(StoreFull, match="free some space"):
        open_store(path)
