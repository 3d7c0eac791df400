"""Where SQLite and PostgreSQL differ: one place, so that all else is the same code."""

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

# An option of a connection: what changes nothing takes no writer's lock (`_sqlite`).
READ_ONLY: dict[str, Any] = {"sits_read_only": True}


def insert(connection: Connection, table: Table) -> Any:
    """Return an insert that can say `on_conflict_do_update`, as both databases know it."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
