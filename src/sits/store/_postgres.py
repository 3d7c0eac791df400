"""The database as a PostgreSQL server's, by URL.

One connection, which holds an advisory lock for as long as it lives: of two controls on one
database the second does not start, since each would undo what the other does. A connection that
broke is made anew by the next call, and with it the lock.
"""

from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from sits.store._errors import LockTakenError, StoreError

_CONNECT_S = 10
_STATEMENT_MS = 10_000
# Any constant does, as long as no other program on the database uses it.
_LOCK = 0x51_75_5F_57_72_69_74


def parse_url(text: str) -> URL:
    """Return a PostgreSQL URL with the driver that we use.

    Raises:
        StoreError: it is none. The message does not repeat it: it may hold a password.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            "the store's URL cannot be read; expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from error
    if url.get_backend_name() != "postgresql":
        raise StoreError(
            f"the store's URL begins with {url.drivername}://; expected postgresql://, or no URL "
            "for a file of SQLite in the home directory"
        )
    return url.set(drivername="postgresql+pg8000")


def make_postgres(url: URL) -> Engine:
    """Return an engine on the database.

    Raises:
        StoreError: the driver is not installed.
    """
    try:
        engine = create_engine(
            url,
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
            pool_pre_ping=True,
            connect_args={"timeout": _CONNECT_S},
        )
    except ModuleNotFoundError as error:
        raise StoreError(
            "PostgreSQL needs a driver that is not installed; run pip install 'sits[postgres]'"
        ) from error

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(f"SET statement_timeout = {_STATEMENT_MS}")
        cursor.execute(f"SELECT pg_try_advisory_lock({_LOCK})")
        taken = cursor.fetchone()[0]
        connection.commit()
        if not taken:
            raise LockTakenError

    return engine
