"""Opens the database: made for its owner alone, checked, and never older code on newer data.

Settings of SQLite, and why: WAL, so that a reader never holds up the writer; `synchronous` is
FULL, because a deploy or a new key is rare and, once answered, must survive a power cut (NORMAL
would survive `kill -9` only); foreign keys on; five seconds of patience with another process's
lock (a backup, say). Transactions begin IMMEDIATE, so that a lock is met at their start.
"""

import errno
import os
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, select
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import StaticPool

from sits.store._errors import StoreError, full_store, to_store_error
from sits.store._store import Store
from sits.store._tables import SCHEMA_VERSION, meta, metadata

_BUSY_TIMEOUT_MS = 5000
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)


def open_store(path: Path) -> Store:
    """Open the store at `path`, and make it if it is not there.

    Mutates the file system: the file and its companions can be read by their owner only.

    Raises:
        StoreError: it cannot be opened, is damaged, is something else, or is of a newer
            version; StoreFull and StoreUnavailable where that may pass.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full_store(path) from error
        raise StoreError(
            f"the store {path} cannot be opened: {error.strerror}; make the directory writable "
            "for this user, or set SITS_HOME to another"
        ) from error
    engine = _make_engine(path)
    try:
        _prepare(engine, path)
    except DatabaseError as error:
        engine.dispose()
        raise to_store_error(error, path) from error
    except StoreError:
        engine.dispose()
        raise
    return Store(engine, path)


def _make_engine(path: Path) -> Engine:
    # One connection: control is the only writer, and one thread.
    engine = create_engine(f"sqlite:///{path}", poolclass=StaticPool)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        for pragma in _PRAGMAS:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _prepare(engine: Engine, path: Path) -> None:
    with engine.begin() as connection:
        damage = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if damage != "ok":
            raise StoreError(
                f"the store {path} is damaged: {damage}; move it away to begin anew, or put a "
                "copy in its place"
            )
        tables = set(inspect(connection).get_table_names())
        if not tables:
            metadata.create_all(connection)
            connection.execute(meta.insert().values(name="schema_version", value=SCHEMA_VERSION))
            return
        if missing := metadata.tables.keys() - tables:
            raise StoreError(
                f"{path} is not a store of SITS: it has no table '{min(missing)}'; move it away, "
                "or set SITS_HOME to another directory"
            )
        version = connection.execute(
            select(meta.c.value).where(meta.c.name == "schema_version")
        ).scalar()
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"the store {path} has layout {version}; this version knows {SCHEMA_VERSION}: "
                "install the version of SITS that wrote it, or a newer one"
            )
