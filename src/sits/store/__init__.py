"""Durable records: units, their revisions, keys. Only `control` writes.

    open_store(path, url)          one function opens it, checks it and brings its layout up
    Store                          typed methods, each one transaction
    UnitRecord, RevisionRecord,    what they give: what is wanted, as it was deployed, where
    RouteRecord, EventRecord,      traffic goes and went, what happened, who may call
    KeyEntry
    StoreFull, StoreUnavailable    what passes: a full disk; a lock, a disk or server that fails

SQLite by default, PostgreSQL by URL, through SQLAlchemy Core. What was answered is on disk:
after `kill -9` or a power cut every transaction is there whole or not at all.
"""

from sits.store._errors import StoreError, StoreFull, StoreUnavailable
from sits.store._open import open_store
from sits.store._records import (
    EventRecord,
    KeyEntry,
    PutResult,
    RevisionRecord,
    RouteRecord,
    UnitRecord,
)
from sits.store._store import Store

__all__ = [
    "EventRecord",
    "KeyEntry",
    "PutResult",
    "RevisionRecord",
    "RouteRecord",
    "Store",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "UnitRecord",
    "open_store",
]
