"""Faults of a store's disk, made by SQLite itself."""

from sits.store import Store


def fill(store: Store) -> None:
    """Leave the store no page to grow by, as on a full disk."""
    _run(store, "PRAGMA max_page_count = 1")  # SQLite takes the size of now for less


def make_room(store: Store) -> None:
    """Take the limit away again."""
    _run(store, "PRAGMA max_page_count = 1000000")


def make_read_only(store: Store) -> None:
    """Refuse writes, as on a file system that was remounted."""
    _run(store, "PRAGMA query_only = ON")


def make_writable(store: Store) -> None:
    """Take writes again."""
    _run(store, "PRAGMA query_only = OFF")


def lose_patience(store: Store) -> None:
    """Have the store wait for no lock."""
    _run(store, "PRAGMA busy_timeout = 0")


def _run(store: Store, pragma: str) -> None:
    # Not in a transaction: a raw connection, of which the store has a single one.
    connection = store._engine.raw_connection()
    connection.cursor().execute(pragma).close()
    connection.close()
