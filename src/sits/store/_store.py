"""The store's methods, each one transaction.

Invariants: a revision is never changed (but for damage to it) or removed; a unit points at a
revision that is there; a route's history only grows while its unit is there; a key is never
un-revoked. Every method may raise `StoreFull` or `StoreUnavailable`, and has then changed
nothing. Not for several threads at once.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from sits.store import _event_rows, _unit_rows
from sits.store._dialect import READ_ONLY, insert
from sits.store._errors import LockTakenError, StoreError, taken_store, to_store_error
from sits.store._records import (
    EventRecord,
    KeyEntry,
    PutResult,
    RevisionRecord,
    RouteRecord,
    UnitRecord,
)
from sits.store._tables import keys, meta


class Store:
    """The platform's durable records. Made by `open_store`.

    Args:
        engine: the database.
        place: what messages call it: a path, or a URL without its password.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine = engine
        self._reader = engine.execution_options(**READ_ONLY)
        self._place = place

    def close(self) -> None:
        """Close the database. The store is of no further use."""
        self._engine.dispose()

    def next_epoch(self) -> int:
        """Return a number that no earlier call, in this life or an earlier one, gave."""
        with self._writing() as connection:
            return int(
                connection.execute(
                    insert(connection, meta)
                    .values(name="epoch", value=1)
                    .on_conflict_do_update(
                        index_elements=[meta.c.name], set_={"value": meta.c.value + 1}
                    )
                    .returning(meta.c.value)
                ).scalar_one()
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Do the block whole or not at all, and say in our words what fails.

        Raises:
            StoreError: the database refuses; StoreFull and StoreUnavailable where that may pass.
        """
        with self._transaction(self._engine) as connection:
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        """As `_writing`, for what changes nothing: it takes no writer's lock."""
        with self._transaction(self._reader) as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise to_store_error(error, self._place) from error
        except LockTakenError as error:
            raise taken_store(self._place) from error

    # units

    def put_unit(
        self, tenant: str, name: str, revision: RevisionRecord, *, now_s: float
    ) -> PutResult:
        """Make this revision the wanted one; a deletion that is under way is undone."""
        with self._writing() as connection:
            return _unit_rows.put(connection, (tenant, name), revision, now_s)

    def want_revision(self, tenant: str, name: str, revision: str, now_s: float) -> bool:
        """Make an earlier revision the wanted one. Returns whether unit and revision are there."""
        with self._writing() as connection:
            return _unit_rows.want(connection, (tenant, name), revision, now_s)

    def set_pin(self, tenant: str, name: str, revision: str, pin_json: str) -> None:
        """Note what model a revision is bound to, where that is not known yet."""
        with self._writing() as connection:
            _unit_rows.set_pin(connection, (tenant, name), revision, pin_json)

    def serve_revision(
        self, tenant: str, name: str, revision: str, *, cause: str, now_s: float
    ) -> None:
        """Have a unit's route point at a revision from now on, and note that in its history."""
        with self._writing() as connection:
            _unit_rows.serve(connection, (tenant, name), revision, cause, now_s)

    def prove_revision(self, tenant: str, name: str, revision: str) -> None:
        """Note that an instance of the revision that takes traffic was up."""
        with self._writing() as connection:
            _unit_rows.prove(connection, (tenant, name), revision)

    def revert_unit(
        self, tenant: str, name: str, revision: str, *, failed: tuple[str, str], now_s: float
    ) -> None:
        """Have a unit's route point at a former revision again.

        Args:
            tenant: whose unit.
            name: the unit.
            revision: the former one.
            failed: the one that could not serve, and why.
            now_s: Unix seconds.
        """
        with self._writing() as connection:
            _unit_rows.fail(connection, (tenant, name), *failed)
            _unit_rows.serve(connection, (tenant, name), revision, "failed rollout", now_s)

    def unit(self, tenant: str, name: str) -> UnitRecord | None:
        """Return a unit, also one that is being deleted."""
        with self._reading() as connection:
            return _unit_rows.one(connection, (tenant, name))

    def units(self) -> tuple[UnitRecord, ...]:
        """Return all units of all tenants, by tenant and name."""
        with self._reading() as connection:
            return _unit_rows.all_units(connection)

    def revision(self, tenant: str, name: str, revision: str) -> RevisionRecord | None:
        """Return one revision of a unit, also of one that is gone."""
        with self._reading() as connection:
            return _unit_rows.revision(connection, (tenant, name), revision)

    def revisions(self, tenant: str, name: str) -> tuple[RevisionRecord, ...]:
        """Return a unit's revisions, oldest first."""
        with self._reading() as connection:
            return _unit_rows.revisions_of(connection, (tenant, name))

    def pins(self) -> frozenset[str]:
        """Return what the revisions of all units that are there are bound to."""
        with self._reading() as connection:
            return _unit_rows.pins(connection)

    def routes(self, tenant: str, name: str) -> tuple[RouteRecord, ...]:
        """Return the history of a unit's route, oldest first."""
        with self._reading() as connection:
            return _unit_rows.routes_of(connection, (tenant, name))

    def delete_unit(self, tenant: str, name: str, now_s: float) -> bool:
        """Mark a unit as to be deleted. Returns whether there was one that was not."""
        with self._writing() as connection:
            return _unit_rows.mark_deleted(connection, (tenant, name), now_s)

    def purge_unit(self, tenant: str, name: str) -> bool:
        """Remove a unit that is marked as to be deleted. Returns whether it was there."""
        with self._writing() as connection:
            return _unit_rows.purge(connection, (tenant, name))

    # events

    def add_events(self, events: Iterable[EventRecord]) -> None:
        """Add what happened; what repeats its unit's last event is counted there."""
        batch = list(events)
        if not batch:
            return
        with self._writing() as connection:
            _event_rows.add(connection, batch)

    def events(self, tenant: str, name: str, *, after_seq: int = 0) -> tuple[EventRecord, ...]:
        """Return a unit's newest events, oldest first, also of one that is gone."""
        with self._reading() as connection:
            return _event_rows.of_unit(connection, (tenant, name), after_seq)

    def forget_events(self, before_s: float) -> int:
        """Remove events of units that are gone, last seen before then. Returns how many."""
        with self._writing() as connection:
            return _event_rows.forget(connection, before_s)

    # keys

    def add_key(self, entry: KeyEntry, *, alone: bool = False) -> None:
        """Add a key; `alone` revokes the tenant's others of the same name with it.

        Raises:
            StoreError: there is a key with this id.
        """
        with self._writing() as connection:
            known = connection.execute(select(keys.c.key_id).where(keys.c.key_id == entry.key_id))
            if known.scalar() is not None:
                raise StoreError(f"there is a key with the id '{entry.key_id}'; make another one")
            if alone:
                connection.execute(
                    keys.update()
                    .where(keys.c.tenant == entry.tenant, keys.c.name == entry.name)
                    .where(keys.c.revoked_s.is_(None))
                    .values(revoked_s=entry.created_s)
                )
            connection.execute(keys.insert().values(**_key_values(entry)))

    def key(self, key_id: str) -> KeyEntry | None:
        """Return a key, also a revoked one."""
        query = select(keys).where(keys.c.key_id == key_id)
        with self._reading() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else KeyEntry(**row)

    def keys_in_force(self) -> tuple[KeyEntry, ...]:
        """Return all keys that are not revoked, by id."""
        query = select(keys).where(keys.c.revoked_s.is_(None)).order_by(keys.c.key_id)
        with self._reading() as connection:
            return tuple(KeyEntry(**row) for row in connection.execute(query).mappings())


def _key_values(entry: KeyEntry) -> dict[str, Any]:
    return {
        "key_id": entry.key_id,
        "secret_hash": entry.secret_hash,
        "tenant": entry.tenant,
        "name": entry.name,
        "created_s": entry.created_s,
        "revoked_s": entry.revoked_s,
    }
