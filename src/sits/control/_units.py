"""The units of the store as the loop and the API see them, and what the API does to them."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sits.control._clock import Clock
from sits.control._errors import UnitNotFound
from sits.control._models import Models, Resolve
from sits.control._plan import Wanted
from sits.control._room import check_room, key_records
from sits.control._settings import Settings
from sits.control._status import unit_status
from sits.control._table import make_routes
from sits.control._world import UnitKey, World
from sits.sandbox import SandboxError, check_prompt
from sits.spec import (
    Loaded,
    SpecError,
    Unit,
    canonical_json,
    revision_id,
    unit_from_json,
)
from sits.store import KeyEntry, Store, UnitRecord
from sits.wire import Table


@dataclass(frozen=True)
class Deployed:
    """What a deploy did."""

    unit: Wanted
    created: bool
    notes: tuple[str, ...]


class Units:
    """Reads the store once and then again after each change: only control writes it."""

    def __init__(
        self,
        store: Store,
        world: World,
        clock: Clock,
        resolve: Resolve,
        *,
        settings: Settings,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._world = world
        self._clock = clock
        self._settings = settings
        self._wake = wake
        self._models = Models(resolve, Path(settings.home))
        self._wanted: tuple[Wanted, ...] | None = None
        self._keys: tuple[KeyEntry, ...] | None = None

    def wanted(self) -> tuple[Wanted, ...]:
        """Return all units of all tenants, also those that are being deleted.

        Models that were missing are looked for again when that is due.
        """
        now_s = self._clock.monotonic_s()
        if self._wanted is None or self._models.is_due(now_s):
            records = self._store.units()
            self._wanted = tuple(self._to_wanted(record, now_s) for record in records)
            self._models.keep(unit.unit.model for unit in self._wanted if unit.unit)
        return self._wanted

    def keys(self) -> tuple[KeyEntry, ...]:
        """Return the keys in force."""
        if self._keys is None:
            self._keys = self._store.keys_in_force()
        return self._keys

    def purge(self, keys: Iterable[UnitKey]) -> None:
        """Remove the records of deleted units whose instances are gone."""
        for tenant, name in keys:
            self._store.purge_unit(tenant, name)
            self._changed()

    def deploy(self, tenant: str, loaded: Loaded, *, dry_run: bool = False) -> Deployed:
        """Make a unit wanted, or say what would be.

        Raises:
            SpecError: its prompt lies in a file that was not put in, or is no template.
            ModelError: its model cannot be run here.
            PlatformFull: gateways could not be told of it beside the others.
        """
        unit = loaded.unit
        _check_inlined(unit)
        _check_template(unit)
        model = self._models.resolve(unit.model)
        now_s = self._clock.unix_s()
        planned = Wanted(tenant, unit.name, unit, revision_id(unit), now_s, now_s, model)
        self._check_room(planned)
        if dry_run:
            former = self._store.unit(tenant, unit.name)
            created = former is None or former.deleted_s is not None
            return Deployed(planned, created, loaded.notes)
        result = self._store.put_unit(
            tenant,
            unit.name,
            revision=revision_id(unit),
            spec_json=canonical_json(unit),
            now_s=now_s,
        )
        self._changed()
        wanted = self.find(tenant, unit.name)
        if wanted.host:
            self._world.forgive(wanted.key, wanted.host)
        self._wake()
        return Deployed(wanted, result.created, loaded.notes)

    def delete(self, tenant: str, name: str) -> Wanted:
        """Make a unit unwanted; it goes when its instances have drained.

        Raises:
            UnitNotFound: there is none.
        """
        self.find(tenant, name)
        self._store.delete_unit(tenant, name, self._clock.unix_s())
        self._changed()
        self._wake()
        return self.find(tenant, name)

    def find(self, tenant: str, name: str) -> Wanted:
        """Return a unit, also one that is being deleted.

        Raises:
            UnitNotFound: there is none.
        """
        for unit in self.wanted():
            if unit.key == (tenant, name):
                return unit
        raise UnitNotFound(f"there is no unit '{name}'; `sits iu list` lists those that there are")

    def describe(self, unit: Wanted) -> dict[str, Any]:
        """Return a unit as the API shows it."""
        status = unit_status(self._world, unit, self._clock.monotonic_s())
        spec = _spec(unit)
        return {
            "name": unit.name,
            "revision": unit.revision,
            "endpoint": self.endpoint(unit),
            "model": spec["model"],
            "created_s": unit.created_s,
            "updated_s": unit.updated_s,
            "spec": spec,
            "status": asdict(status),
        }

    def endpoint(self, unit: Wanted) -> str:
        """Return the URL that a unit answers on."""
        return f"{self._settings.public_url.rstrip('/')}/iu/{unit.name}/v1/query"

    def _check_room(self, planned: Wanted) -> None:
        others = [unit for unit in self.wanted() if unit.key != planned.key]
        check_room(self._table(self.wanted()), self._table([*others, planned]))

    def _table(self, wanted: Iterable[Wanted]) -> Table:
        routes = make_routes(self._world, wanted, self._settings, self._clock.monotonic_s())
        return Table(0, routes, key_records(self.keys()))

    def _changed(self) -> None:
        self._wanted = None
        self._keys = None

    def _to_wanted(self, record: UnitRecord, now_s: float) -> Wanted:
        bare = Wanted(
            record.tenant,
            record.name,
            None,
            record.revision,
            record.created_s,
            record.updated_s,
            model=None,
            deleted=record.deleted_s is not None,
        )
        try:
            unit = unit_from_json(record.spec_json)
        except SpecError as error:
            return replace(bare, problem=_unreadable(record, error))
        found = self._models.find(unit.model, now_s)
        return replace(
            bare,
            unit=unit,
            model=found.model,
            problem=found.problem,
            retry_at_s=found.retry_at_s,
        )


def _unreadable(record: UnitRecord, error: SpecError) -> str:
    return (
        f"the stored unit '{record.name}' cannot be read by this version ({error}); deploy it "
        "again, or delete it"
    )


def _spec(unit: Wanted) -> dict[str, Any]:
    if unit.unit is None:
        return {"name": unit.name, "model": "unknown"}
    return unit.unit.model_dump(mode="json", exclude_none=True)


def _check_inlined(unit: Unit) -> None:
    if unit.prompt is not None and unit.prompt.file is not None:
        raise SpecError(
            f"names the file {unit.prompt.file!r}, which lies with the client; expected its text "
            "as `template`: deploy with `sits iu deploy`, which puts it in",
            field="prompt.file",
        )


def _check_template(unit: Unit) -> None:
    # Else the unit would be Ready, and every request would be refused.
    if unit.prompt is None or unit.prompt.template is None:
        return
    try:
        check_prompt(unit.prompt.template)
    except SandboxError as error:
        raise SpecError(
            f"{str(error).rstrip('.')}; expected a Jinja2 template: mend it and deploy again",
            field="prompt.template",
        ) from error
