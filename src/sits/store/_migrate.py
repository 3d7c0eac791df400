"""Brings a database to the layout of this version, or refuses one of a newer.

A new database gets the newest layout at once. Alembic is imported only where there is an older
one to bring forward; its steps are in `_migrations/versions`, and a test holds that they end at
the very tables of `_tables`. A step is one transaction: after a crash it is done or not begun.
"""

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from sits.store._errors import StoreError
from sits.store._tables import meta, metadata

FIRST = "0001"
NEWEST = "0002"

# Alembic's own table, so that its command works on a store, too.
_version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


def migrate(connection: Connection, place: str) -> None:
    """Lay the tables out, or bring them to this version's layout.

    Raises:
        StoreError: the database is something else's, or of a newer version.
    """
    tables = set(inspect(connection).get_table_names())
    if not tables:
        metadata.create_all(connection)
        _version.create(connection)
        connection.execute(_version.insert().values(version_num=NEWEST))
        return
    if missing := {"meta", "revisions", "units", "keys"} - tables:
        raise StoreError(
            f"{place} is not a store of SITS: it has no table '{min(missing)}'; move it away, or "
            "set SITS_HOME to another directory"
        )
    version = _read_version(connection, tables)
    if version == NEWEST:
        return
    if version not in _known_versions():
        raise StoreError(
            f"the store {place} has layout {version}; this version knows {NEWEST}: install the "
            "version of SITS that wrote it, or a newer one"
        )
    _upgrade(connection, version, stamped=_version.name in tables)


def _read_version(connection: Connection, tables: set[str]) -> str:
    if _version.name in tables:
        return str(connection.execute(select(_version.c.version_num)).scalar())
    # The first layout was counted by hand.
    count = connection.execute(select(meta.c.value).where(meta.c.name == "schema_version")).scalar()
    return FIRST if count == 1 else str(count)


def _known_versions() -> list[str]:
    versions = Path(__file__).parent / "_migrations" / "versions"
    return [path.name.split("_")[0] for path in versions.glob("[0-9]*.py")]


def _upgrade(connection: Connection, version: str, *, stamped: bool) -> None:
    # Most starts need none of it, and are quicker for that.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "_migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    if not stamped:
        command.stamp(config, version)
    command.upgrade(config, "head")
