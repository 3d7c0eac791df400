"""Units' events, inside a transaction that the store has begun. Each unit keeps its newest."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from sqlalchemy import ColumnElement, Connection, and_, exists, select, tuple_

from sits.store._dialect import insert
from sits.store._records import EventRecord
from sits.store._tables import events, units

MAX_EVENTS = 200
_UNITS_A_QUERY = 500


def add(connection: Connection, batch: Sequence[EventRecord]) -> None:
    """Add events; one that says the same as its unit's last is counted there.

    A few statements for all of them: a thousand units may have something to tell at once.
    """
    last = _last_of(connection, {(event.tenant, event.name) for event in batch})
    changed: dict[tuple[str, str, int], EventRecord] = {}
    for event in batch:
        former = last.get((event.tenant, event.name))
        if former is not None and _words(former) == _words(event):
            count = former.count + event.count
            record = replace(former, count=count, last_s=event.last_s)
        else:
            record = replace(event, seq=former.seq + 1 if former else 1)
        last[record.tenant, record.name] = changed[record.tenant, record.name, record.seq] = record
    statement = insert(connection, events)
    repeated = {name: statement.excluded[name] for name in ("count", "last_s")}
    connection.execute(
        statement.on_conflict_do_update(index_elements=list(events.primary_key), set_=repeated),
        [asdict(record) for record in changed.values()],
    )
    for key, record in last.items():
        if record.seq > MAX_EVENTS:
            old = events.delete().where(_is(key), events.c.seq <= record.seq - MAX_EVENTS)
            connection.execute(old)


def _last_of(
    connection: Connection, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], EventRecord]:
    """Return the last event of each of these units that has one."""
    found: dict[tuple[str, str], EventRecord] = {}
    newer = events.alias()
    is_last = ~exists().where(
        newer.c.tenant == events.c.tenant,
        newer.c.name == events.c.name,
        newer.c.seq > events.c.seq,
    )
    ordered = sorted(keys)
    for start in range(0, len(ordered), _UNITS_A_QUERY):
        some = ordered[start : start + _UNITS_A_QUERY]
        query = select(events).where(tuple_(events.c.tenant, events.c.name).in_(some), is_last)
        for row in connection.execute(query).mappings():
            found[row["tenant"], row["name"]] = EventRecord(**row)
    return found


def _words(event: EventRecord) -> tuple[str, str, str]:
    return event.kind, event.reason, event.message


def of_unit(
    connection: Connection, key: tuple[str, str], after_seq: int
) -> tuple[EventRecord, ...]:
    """Return a unit's events after one."""
    query = select(events).where(_is(key), events.c.seq > after_seq).order_by(events.c.seq)
    return tuple(EventRecord(**row) for row in connection.execute(query).mappings())


def forget(connection: Connection, before_s: float) -> int:
    """Remove old events of units that are gone."""
    there = exists().where(units.c.tenant == events.c.tenant, units.c.name == events.c.name)
    result = connection.execute(events.delete().where(events.c.last_s < before_s, ~there))
    return result.rowcount


def _is(key: tuple[str, str]) -> ColumnElement[bool]:
    return and_(events.c.tenant == key[0], events.c.name == key[1])
