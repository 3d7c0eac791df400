"""The units of the store as the loop and the API see them, and what the API does to them."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from sits.control._clock import Clock
from sits.control._errors import UnitNotFound
from sits.control._plan import Wanted
from sits.control._settings import Settings
from sits.control._status import unit_status
from sits.control._world import UnitKey, World
from sits.models import ModelError, ModelFile
from sits.sandbox import SandboxError, check_prompt
from sits.spec import (
    Loaded,
    ModelReference,
    SpecError,
    Unit,
    canonical_json,
    revision_id,
    unit_from_json,
)
from sits.store import KeyEntry, Store, UnitRecord


class Resolve(Protocol):
    """Finds a model's file, or raises `ModelError`."""

    def __call__(self, reference: ModelReference, *, home: Path) -> ModelFile:
        """Return the file that the reference names."""
        ...


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
        self._resolve = resolve
        self._settings = settings
        self._wake = wake
        self._wanted: tuple[Wanted, ...] | None = None
        self._keys: tuple[KeyEntry, ...] | None = None

    def wanted(self) -> tuple[Wanted, ...]:
        """Return all units of all tenants, also those that are being deleted."""
        if self._wanted is None:
            self._wanted = tuple(self._to_wanted(record) for record in self._store.units())
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
        """
        unit = loaded.unit
        _check_inlined(unit)
        _check_template(unit)
        model = self._resolve(unit.model, home=Path(self._settings.home))
        now_s = self._clock.unix_s()
        if dry_run:
            former = self._store.unit(tenant, unit.name)
            created = former is None or former.deleted_s is not None
            planned = Wanted(tenant, unit, revision_id(unit), now_s, now_s, model)
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
        return {
            "name": unit.unit.name,
            "revision": unit.revision,
            "endpoint": self.endpoint(unit),
            "model": str(unit.unit.model),
            "created_s": unit.created_s,
            "updated_s": unit.updated_s,
            "spec": unit.unit.model_dump(mode="json", exclude_none=True),
            "status": asdict(status),
        }

    def endpoint(self, unit: Wanted) -> str:
        """Return the URL that a unit answers on."""
        return f"{self._settings.public_url.rstrip('/')}/iu/{unit.unit.name}/v1/query"

    def _changed(self) -> None:
        self._wanted = None
        self._keys = None

    def _to_wanted(self, record: UnitRecord) -> Wanted:
        unit = unit_from_json(record.spec_json)
        model, problem = None, None
        try:
            model = self._resolve(unit.model, home=Path(self._settings.home))
        except ModelError as error:
            problem = str(error)
        return Wanted(
            record.tenant,
            unit,
            record.revision,
            record.created_s,
            record.updated_s,
            model=model,
            problem=problem,
            deleted=record.deleted_s is not None,
        )


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
