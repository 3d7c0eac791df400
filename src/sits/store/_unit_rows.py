"""Units, revisions and routes, inside a transaction that the store has begun."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, func, select

from sits.store._dialect import insert
from sits.store._records import PutResult, RevisionRecord, RouteRecord, UnitRecord
from sits.store._tables import revisions, routes, units

Key = tuple[str, str]
MAX_ROUTES = 100

_wanted = revisions.alias("wanted_revision")
_serving = revisions.alias("serving_revision")


def put(connection: Connection, key: Key, revision: RevisionRecord, now_s: float) -> PutResult:
    """Make a revision the wanted one."""
    tenant, name = key
    values = {"spec_json": revision.spec_json, "pin_json": revision.pin_json}
    connection.execute(
        insert(connection, revisions)
        .values(
            tenant=tenant,
            name=name,
            revision=revision.revision,
            created_s=revision.created_s,
            **values,
        )
        # A revision is named by its text's hash: another text under it is damage.
        .on_conflict_do_update(
            index_elements=[revisions.c.tenant, revisions.c.name, revisions.c.revision],
            set_=values,
        )
    )
    former = one(connection, key)
    living = former if former is not None and former.deleted_s is None else None
    changed = living is None or living.wanted.revision != revision.revision
    row = {
        "revision": revision.revision,
        "created_s": living.created_s if living else now_s,
        "updated_s": now_s if changed or living is None else living.updated_s,
        "deleted_s": None,
        "serving": living.serving.revision if living and living.serving else None,
        "proven": living.proven if living else None,
        "failed": None,
        "failed_why": None,
    }
    connection.execute(
        insert(connection, units)
        .values(tenant=tenant, name=name, **row)
        .on_conflict_do_update(index_elements=[units.c.tenant, units.c.name], set_=row)
    )
    if former is not None and living is None:  # a new life has a history of its own
        connection.execute(routes.delete().where(_is(routes, key)))
    unit = one(connection, key)
    assert unit is not None
    return PutResult(unit, created=living is None)


def want(connection: Connection, key: Key, revision: str, now_s: float) -> bool:
    """Make an earlier revision the wanted one."""
    unit = one(connection, key)
    known = _revision(connection, key, revision)
    if unit is None or unit.deleted_s is not None or known is None:
        return False
    changed = {"updated_s": now_s} if unit.wanted.revision != revision else {}
    connection.execute(
        units.update()
        .where(_is(units, key))
        .values(revision=revision, failed=None, failed_why=None, **changed)
    )
    return True


def prove(connection: Connection, key: Key, revision: str) -> None:
    """Note that an instance of the revision that takes traffic was up."""
    connection.execute(
        units.update()
        .where(_is(units, key), units.c.serving == revision)
        .values(proven=revision, failed=None, failed_why=None)
    )


def fail(connection: Connection, key: Key, revision: str, why: str) -> None:
    """Note that a revision took traffic and could not serve."""
    values = {"failed": revision, "failed_why": why}
    connection.execute(units.update().where(_is(units, key)).values(**values))


def set_pin(connection: Connection, key: Key, revision: str, pin_json: str) -> None:
    """Note what model a revision is bound to."""
    connection.execute(
        revisions.update()
        .where(_is(revisions, key), revisions.c.revision == revision)
        .where(revisions.c.pin_json.is_(None))
        .values(pin_json=pin_json)
    )


def serve(connection: Connection, key: Key, revision: str, cause: str, now_s: float) -> None:
    """Point a unit's route at a revision."""
    tenant, name = key
    changed = connection.execute(
        units.update()
        .where(_is(units, key), units.c.serving.is_distinct_from(revision))
        .values(serving=revision)
    )
    if not changed.rowcount:
        return
    last = connection.execute(select(func.max(routes.c.seq)).where(_is(routes, key))).scalar() or 0
    connection.execute(
        routes.insert().values(
            tenant=tenant, name=name, seq=last + 1, revision=revision, at_s=now_s, cause=cause
        )
    )
    connection.execute(
        routes.delete().where(_is(routes, key), routes.c.seq <= last + 1 - MAX_ROUTES)
    )


def one(connection: Connection, key: Key) -> UnitRecord | None:
    """Return a unit."""
    row = connection.execute(_select_units().where(_is(units, key))).mappings().one_or_none()
    return None if row is None else _unit(row)


def all_units(connection: Connection) -> tuple[UnitRecord, ...]:
    """Return all units."""
    query = _select_units().order_by(units.c.tenant, units.c.name)
    return tuple(_unit(row) for row in connection.execute(query).mappings())


def revision(connection: Connection, key: Key, revision: str) -> RevisionRecord | None:
    """Return one revision."""
    return _revision(connection, key, revision)


def revisions_of(connection: Connection, key: Key) -> tuple[RevisionRecord, ...]:
    """Return a unit's revisions, oldest first."""
    query = (
        _select_revisions()
        .where(_is(revisions, key))
        .order_by(revisions.c.created_s, revisions.c.revision)
    )
    return tuple(RevisionRecord(**row) for row in connection.execute(query).mappings())


def pins(connection: Connection) -> frozenset[str]:
    """Return what all revisions of units that are there are bound to."""
    query = (
        select(revisions.c.pin_json)
        .join(units, and_(units.c.tenant == revisions.c.tenant, units.c.name == revisions.c.name))
        .where(revisions.c.pin_json.is_not(None))
        .distinct()
    )
    return frozenset(connection.execute(query).scalars())


def routes_of(connection: Connection, key: Key) -> tuple[RouteRecord, ...]:
    """Return the history of a unit's route."""
    query = (
        select(routes.c.seq, routes.c.revision, routes.c.at_s, routes.c.cause)
        .where(_is(routes, key))
        .order_by(routes.c.seq)
    )
    return tuple(RouteRecord(**row) for row in connection.execute(query).mappings())


def mark_deleted(connection: Connection, key: Key, now_s: float) -> bool:
    """Mark a unit as to be deleted."""
    result = connection.execute(
        units.update().where(_is(units, key), units.c.deleted_s.is_(None)).values(deleted_s=now_s)
    )
    return result.rowcount > 0


def purge(connection: Connection, key: Key) -> bool:
    """Remove a unit that is marked, with its route."""
    result = connection.execute(
        units.delete().where(_is(units, key), units.c.deleted_s.is_not(None))
    )
    if result.rowcount:
        connection.execute(routes.delete().where(_is(routes, key)))
    return result.rowcount > 0


def _is(table: Any, key: Key) -> ColumnElement[bool]:
    return and_(table.c.tenant == key[0], table.c.name == key[1])


def _select_revisions() -> Select[Any]:
    return select(
        revisions.c.revision, revisions.c.spec_json, revisions.c.created_s, revisions.c.pin_json
    )


def _revision(connection: Connection, key: Key, name: str) -> RevisionRecord | None:
    query = _select_revisions().where(_is(revisions, key), revisions.c.revision == name)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else RevisionRecord(**row)


def _of(table: Any, revision_column: Any) -> ColumnElement[bool]:
    return and_(
        table.c.tenant == units.c.tenant,
        table.c.name == units.c.name,
        table.c.revision == revision_column,
    )


def _select_units() -> Select[Any]:
    return (
        select(
            units,
            _wanted.c.spec_json.label("wanted_spec"),
            _wanted.c.created_s.label("wanted_created_s"),
            _wanted.c.pin_json.label("wanted_pin"),
            _serving.c.spec_json.label("serving_spec"),
            _serving.c.created_s.label("serving_created_s"),
            _serving.c.pin_json.label("serving_pin"),
        )
        .join(_wanted, _of(_wanted, units.c.revision))
        .outerjoin(_serving, _of(_serving, units.c.serving))
    )


def _unit(row: RowMapping) -> UnitRecord:
    wanted = RevisionRecord(
        row["revision"], row["wanted_spec"], row["wanted_created_s"], row["wanted_pin"]
    )
    serving = None
    if row["serving_spec"] is not None:
        serving = RevisionRecord(
            row["serving"], row["serving_spec"], row["serving_created_s"], row["serving_pin"]
        )
    return UnitRecord(
        row["tenant"],
        row["name"],
        wanted,
        serving,
        row["created_s"],
        row["updated_s"],
        row["deleted_s"],
        row["proven"],
        row["failed"],
        row["failed_why"],
    )
