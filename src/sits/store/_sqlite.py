"""The database as one file, made for its owner alone.

Settings of SQLite, and why: WAL, so that a reader never holds up the writer; `synchronous` is
FULL, because a deploy or a new key is rare and, once answered, must survive a power cut (NORMAL
would survive `kill -9` only); foreign keys on; five seconds of patience with another process's
lock (a backup, say) at the start, and a fifth of a second from then on, since the whole of
control waits meanwhile. Transactions that write begin IMMEDIATE, so that a lock is met at their
start.
"""

import errno
import os
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import StaticPool

from sits.store._dialect import READ_ONLY
from sits.store._errors import StoreError, full_store

_BUSY_TIMEOUT_MS = 5000
_RUNNING_TIMEOUT_MS = 200
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)


def make_file(path: Path) -> None:
    """Make the database's file if it is not there, and take it from others' eyes.

    Raises:
        StoreError: it cannot be had; StoreFull where the disk is full.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full_store(str(path)) from error
        raise StoreError(
            f"the store {path} cannot be opened: {error.strerror}; make the directory writable "
            "for this user, or set SITS_HOME to another"
        ) from error


def make_sqlite(path: Path) -> Engine:
    """Return an engine on the file, with its one connection's settings."""
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
        reads = READ_ONLY.items() <= connection.get_execution_options().items()
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def check_file(connection: Connection, path: Path) -> None:
    """Look for damage.

    Raises:
        StoreError: there is some.
    """
    damage = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if damage != "ok":
        raise StoreError(
            f"the store {path} is damaged: {damage}; move it away to begin anew, or put a copy in "
            "its place"
        )


def be_impatient(engine: Engine) -> None:
    """Wait no longer for another process's lock than a running service may."""
    connection = engine.raw_connection()  # the one that there is; not in a transaction
    connection.cursor().execute(f"PRAGMA busy_timeout = {_RUNNING_TIMEOUT_MS}").close()
    connection.close()
