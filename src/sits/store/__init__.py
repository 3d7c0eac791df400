"""Durable records: units, their revisions, keys. Only `control` writes.

    open_store(path) -> Store      one function opens it, checks it and lays out its tables
    Store                          typed methods, each one transaction
    UnitRecord, KeyEntry           what they give
    StoreFull, StoreUnavailable    what passes: a full disk; a lock, a disk that fails

SQLite by default, through SQLAlchemy Core. What was answered is on disk: after `kill -9` or a
power cut every transaction is there whole or not at all.
"""

from sits.store._errors import StoreError, StoreFull, StoreUnavailable
from sits.store._open import open_store
from sits.store._records import KeyEntry, PutResult, UnitRecord
from sits.store._store import Store

__all__ = [
    "KeyEntry",
    "PutResult",
    "Store",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "UnitRecord",
    "open_store",
]
