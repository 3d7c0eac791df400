"""The errors of `store`, and how SQLite's own become them.

Tree::

    SitsError
      +-- StoreError               the database cannot be opened, or refused what it was given
            +-- StoreFull          507: there is no room on its disk
            +-- StoreUnavailable   503: locked, read-only, or its disk fails

What fails changes nothing: every method of the store is one transaction.
"""

import sqlite3
from pathlib import Path

from sqlalchemy.exc import DatabaseError

from sits._errors import SitsError


class StoreError(SitsError):
    """The store cannot do what was asked; the message says what to do."""

    code = "store_error"


class StoreFull(StoreError):
    """There is no room for what was to be written."""

    code = "store_full"
    retryable = True
    http_status = 507


class StoreUnavailable(StoreError):
    """The store cannot be read or written now."""

    code = "store_unavailable"
    retryable = True
    http_status = 503


def full_store(path: Path) -> StoreFull:
    """Return the error for a disk without room."""
    return StoreFull(
        f"the store {path} has no room: the disk is full, and nothing was changed; free some "
        "space there and try again"
    )


def to_store_error(error: DatabaseError, path: Path) -> StoreError:
    """Return what an error of the database means for who asked the store.

    Args:
        error: SQLAlchemy's, around SQLite's.
        path: the database's file.
    """
    extended = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    match extended & 0xFF:  # the rest says which kind of the same
        case sqlite3.SQLITE_FULL:
            return full_store(path)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailable(
                f"the store {path} is locked by another process, and nothing was changed; end "
                "what holds it (a backup, a database shell) and try again"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreUnavailable(
                f"the store {path} cannot be written ({error.orig}), and nothing was changed; "
                "make it, its directory and their file system writable for this user and try "
                "again"
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            return StoreUnavailable(
                f"the store {path} cannot be used ({error.orig}: I/O error), and nothing was "
                "changed; see whether its disk is there, sound and not full, and try again"
            )
        case _:
            return StoreError(
                f"the store {path} cannot be read: {error.orig}; move it away to begin anew, or "
                "put a copy in its place"
            )
