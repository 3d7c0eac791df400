"""Opens the database: checked, brought to this version's layout, never older code on newer data."""

from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from sits.store._errors import LockTakenError, StoreError, taken_store, to_store_error
from sits.store._migrate import migrate
from sits.store._postgres import make_postgres, parse_url
from sits.store._sqlite import be_impatient, check_file, make_file, make_sqlite
from sits.store._store import Store


def open_store(path: Path, url: str = "") -> Store:
    """Open the store, and make it if it is not there.

    Mutates the file system: a file of SQLite and its companions can be read by their owner only.

    Args:
        path: the file for SQLite.
        url: of a PostgreSQL database, instead of the file; empty: the file.

    Raises:
        StoreError: it cannot be opened, is damaged, is something else, or is of a newer
            version; StoreFull and StoreUnavailable where that may pass.
    """
    if url:
        parsed = parse_url(url)
        place = parsed.set(drivername="postgresql").render_as_string(hide_password=True)
        return _prepare(make_postgres(parsed), place, None)
    make_file(path)
    return _prepare(make_sqlite(path), str(path), path)


def _prepare(engine: Engine, place: str, path: Path | None) -> Store:
    try:
        with engine.begin() as connection:
            _check(connection, place, path)
    except DBAPIError as error:
        engine.dispose()
        raise to_store_error(error, place) from error
    except LockTakenError as error:
        engine.dispose()
        raise taken_store(place) from error
    except StoreError:
        engine.dispose()
        raise
    if path is not None:
        be_impatient(engine)
    return Store(engine, place)


def _check(connection: Connection, place: str, path: Path | None) -> None:
    if path is not None:
        check_file(connection, path)
    migrate(connection, place)
