"""The store's methods, each one transaction.

Invariants: a revision is never changed (but for damage to it) or removed; a unit points at a
revision that is there; a key is never un-revoked. Every method may raise `StoreFull` or
`StoreUnavailable`, and has then changed nothing. Not for several threads at once.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, Select, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DatabaseError, IntegrityError

from sits.store._errors import StoreError, to_store_error
from sits.store._records import KeyEntry, PutResult, UnitRecord
from sits.store._tables import keys, meta, revisions, units


class Store:
    """The platform's durable records. Made by `open_store`."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path

    def close(self) -> None:
        """Close the database. The store is of no further use."""
        self._engine.dispose()

    def next_epoch(self) -> int:
        """Return a number that no earlier call, in this life or an earlier one, gave."""
        with self._transaction() as connection:
            return int(
                connection.execute(
                    insert(meta)
                    .values(name="epoch", value=1)
                    .on_conflict_do_update(
                        index_elements=[meta.c.name], set_={"value": meta.c.value + 1}
                    )
                    .returning(meta.c.value)
                ).scalar_one()
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Do the block whole or not at all, and say in our words what fails.

        Raises:
            StoreError: the database refuses; StoreFull and StoreUnavailable where that may pass.
        """
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise  # what it means, its method knows
        except DatabaseError as error:
            raise to_store_error(error, self._path) from error

    # units

    def put_unit(
        self, tenant: str, name: str, *, revision: str, spec_json: str, now_s: float
    ) -> PutResult:
        """Make this revision the unit's current one; a deletion that is under way is undone."""
        with self._transaction() as connection:
            connection.execute(
                insert(revisions)
                .values(
                    tenant=tenant,
                    name=name,
                    revision=revision,
                    spec_json=spec_json,
                    created_s=now_s,
                )
                # A revision is named by its text's hash: another text under it is damage.
                .on_conflict_do_update(
                    index_elements=[revisions.c.tenant, revisions.c.name, revisions.c.revision],
                    set_={"spec_json": spec_json},
                )
            )
            row = connection.execute(_select_unit(tenant, name)).mappings().one_or_none()
            former = None if row is None or row["deleted_s"] is not None else _unit(row)
            changed = former is None or former.revision != revision
            values = {
                "revision": revision,
                "created_s": former.created_s if former else now_s,
                "updated_s": now_s if changed or former is None else former.updated_s,
                "deleted_s": None,
            }
            connection.execute(
                insert(units)
                .values(tenant=tenant, name=name, **values)
                .on_conflict_do_update(index_elements=[units.c.tenant, units.c.name], set_=values)
            )
            row = connection.execute(_select_unit(tenant, name)).mappings().one()
            return PutResult(_unit(row), created=former is None)

    def unit(self, tenant: str, name: str) -> UnitRecord | None:
        """Return a unit, also one that is being deleted."""
        with self._transaction() as connection:
            row = connection.execute(_select_unit(tenant, name)).mappings().one_or_none()
        return None if row is None else _unit(row)

    def units(self) -> tuple[UnitRecord, ...]:
        """Return all units of all tenants, by tenant and name."""
        query = _select_units().order_by(units.c.tenant, units.c.name)
        with self._transaction() as connection:
            return tuple(_unit(row) for row in connection.execute(query).mappings())

    def delete_unit(self, tenant: str, name: str, now_s: float) -> bool:
        """Mark a unit as to be deleted. Returns whether there was one that was not."""
        with self._transaction() as connection:
            result = connection.execute(
                units.update()
                .where(units.c.tenant == tenant, units.c.name == name)
                .where(units.c.deleted_s.is_(None))
                .values(deleted_s=now_s)
            )
            return result.rowcount > 0

    def purge_unit(self, tenant: str, name: str) -> bool:
        """Remove a unit that is marked as to be deleted. Returns whether it was there."""
        with self._transaction() as connection:
            result = connection.execute(
                units.delete()
                .where(units.c.tenant == tenant, units.c.name == name)
                .where(units.c.deleted_s.is_not(None))
            )
            return result.rowcount > 0

    # keys

    def add_key(self, entry: KeyEntry, *, alone: bool = False) -> None:
        """Add a key; `alone` revokes the tenant's others of the same name with it.

        Raises:
            StoreError: there is a key with this id.
        """
        try:
            with self._transaction() as connection:
                if alone:
                    connection.execute(
                        keys.update()
                        .where(keys.c.tenant == entry.tenant, keys.c.name == entry.name)
                        .where(keys.c.revoked_s.is_(None))
                        .values(revoked_s=entry.created_s)
                    )
                connection.execute(keys.insert().values(**_key_values(entry)))
        except IntegrityError as error:
            raise StoreError(
                f"there is a key with the id '{entry.key_id}'; make another one"
            ) from error

    def key(self, key_id: str) -> KeyEntry | None:
        """Return a key, also a revoked one."""
        query = select(keys).where(keys.c.key_id == key_id)
        with self._transaction() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else KeyEntry(**row)

    def keys_in_force(self) -> tuple[KeyEntry, ...]:
        """Return all keys that are not revoked, by id."""
        query = select(keys).where(keys.c.revoked_s.is_(None)).order_by(keys.c.key_id)
        with self._transaction() as connection:
            return tuple(KeyEntry(**row) for row in connection.execute(query).mappings())


def _select_units() -> Select[Any]:
    return select(units, revisions.c.spec_json).join_from(units, revisions)


def _select_unit(tenant: str, name: str) -> Select[Any]:
    return _select_units().where(units.c.tenant == tenant, units.c.name == name)


def _unit(row: RowMapping) -> UnitRecord:
    return UnitRecord(**row)


def _key_values(entry: KeyEntry) -> dict[str, Any]:
    return {
        "key_id": entry.key_id,
        "secret_hash": entry.secret_hash,
        "tenant": entry.tenant,
        "name": entry.name,
        "created_s": entry.created_s,
        "revoked_s": entry.revoked_s,
    }
