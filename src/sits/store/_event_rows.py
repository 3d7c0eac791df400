"""Units' events, inside a transaction that the store has begun. Each unit keeps its newest."""

from sqlalchemy import ColumnElement, Connection, and_, exists, select

from sits.store._records import EventRecord
from sits.store._tables import events, units

MAX_EVENTS = 200


def add(connection: Connection, event: EventRecord) -> None:
    """Add one event, or count it with the last one if it says the same."""
    key = (event.tenant, event.name)
    query = select(events).where(_is(key)).order_by(events.c.seq.desc()).limit(1)
    last = connection.execute(query).mappings().one_or_none()
    same = ("kind", "reason", "message")
    if last is not None and all(last[field] == getattr(event, field) for field in same):
        connection.execute(
            events.update()
            .where(_is(key), events.c.seq == last["seq"])
            .values(count=last["count"] + event.count, last_s=event.last_s)
        )
        return
    seq = 1 if last is None else last["seq"] + 1
    connection.execute(
        events.insert().values(
            tenant=event.tenant,
            name=event.name,
            seq=seq,
            kind=event.kind,
            reason=event.reason,
            message=event.message,
            count=event.count,
            first_s=event.first_s,
            last_s=event.last_s,
        )
    )
    connection.execute(events.delete().where(_is(key), events.c.seq <= seq - MAX_EVENTS))


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
