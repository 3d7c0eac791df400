"""The errors of `store`, and how the databases' own become them.

Tree::

    SitsError
      +-- StoreError               the database cannot be opened, or refused what it was given
            +-- StoreFull          507: there is no room on its disk
            +-- StoreUnavailable   503: locked, read-only, or its disk fails

What fails changes nothing: every method of the store is one transaction.
"""

import sqlite3

from sqlalchemy.exc import DBAPIError

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


class LockTakenError(Exception):
    """Another control holds the database: what the driver's hook raises, never given on."""


def taken_store(place: str) -> StoreUnavailable:
    """Return the error for a database that another control uses."""
    return StoreUnavailable(
        f"the store {place} is used by another control; end that platform, or give this one a "
        "database of its own"
    )


def full_store(place: str) -> StoreFull:
    """Return the error for a disk without room."""
    return StoreFull(
        f"the store {place} has no room: the disk is full, and nothing was changed; free some "
        "space there and try again"
    )


def to_store_error(error: DBAPIError, place: str) -> StoreError:
    """Return what an error of the database means for who asked the store.

    Args:
        error: SQLAlchemy's, around the driver's.
        place: what to call the database.
    """
    if isinstance(error.orig, sqlite3.Error):
        return _from_sqlite(error.orig, place)
    return _from_postgres(error, place)


def _from_sqlite(error: sqlite3.Error, place: str) -> StoreError:
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    match extended & 0xFF:  # the rest says which kind of the same
        case sqlite3.SQLITE_FULL:
            return full_store(place)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailable(
                f"the store {place} is locked by another process, and nothing was changed; end "
                "what holds it (a backup, a database shell) and try again"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreUnavailable(
                f"the store {place} cannot be written ({error}), and nothing was changed; make "
                "it, its directory and their file system writable for this user and try again"
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            return StoreUnavailable(
                f"the store {place} cannot be used ({error}: I/O error), and nothing was changed; "
                "see whether its disk is there, sound and not full, and try again"
            )
        case _:
            return StoreError(
                f"the store {place} cannot be read: {error}; move it away to begin anew, or put a "
                "copy in its place"
            )


_DISK_FULL = "53100"
_NOT_ITS_PLACE = ("28", "3D")  # PostgreSQL's classes: a login that is refused, no such database
# Connections that failed, resources that lack, the server's own end, a writer that waited.
_MAY_PASS = ("08", "25", "40", "53", "55", "57", "58")


def _from_postgres(error: DBAPIError, place: str) -> StoreError:
    given = error.orig.args[0] if error.orig is not None and error.orig.args else ""
    state = given.get("C", "") if isinstance(given, dict) else ""
    words = given.get("M", "") if isinstance(given, dict) else str(given)
    if state == _DISK_FULL:
        return full_store(place)
    if state[:2] in _NOT_ITS_PLACE:
        return StoreError(
            f"the store {place} refuses this platform: {words}; look at user, password and "
            "database in store_url"
        )
    if not state or error.connection_invalidated or state[:2] in _MAY_PASS:
        return StoreUnavailable(
            f"the store {place} cannot be used now ({words or 'no connection'}), and nothing was "
            "changed; see whether the server runs and can be reached, and try again"
        )
    return StoreError(f"the store {place} refuses: {words} ({state})")
