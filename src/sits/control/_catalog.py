"""The units of the store with their models found: read once, and again after each change."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

import anyio

from sits.control._errors import UnitNotFound
from sits.control._models import Models
from sits.control._pins import decode_pins, encode_pins
from sits.control._wanted import FailedRollout, Release, UnitKey, Wanted
from sits.models import ModelError, ModelFile, ModelPin
from sits.spec import SpecError, Unit, served_adapters, unit_from_json
from sits.store import KeyEntry, RevisionRecord, Store, StoreError, UnitRecord

log = logging.getLogger(__name__)


class Catalog:
    """What is wanted, as the store has it: only control writes that.

    Args:
        store: the records.
        models: finds models' files, and takes in those that are missing.
        wake: called when something came to be known.
        is_up: tells whether a host has loaded its model.
    """

    def __init__(
        self,
        store: Store,
        models: Models,
        wake: Callable[[], None],
        is_up: Callable[[str | None], bool],
    ) -> None:
        self._store = store
        self._models = models
        self._wake = wake
        self._is_up = is_up
        self._wanted: dict[UnitKey, Wanted] | None = None
        self._keys: tuple[KeyEntry, ...] | None = None
        self._pin_problems: dict[tuple[str, str, str], str] = {}
        self._parsed: dict[tuple[str, str, str], tuple[str, Unit]] = {}
        self._kept: frozenset[str] | None = None
        self._loaded: dict[str, ModelFile] = {}
        self.unpinned = anyio.Event()  # a revision came up whose model is not known yet

    def wanted(self) -> Iterable[Wanted]:
        """Return all units, by tenant and name, also those that are being deleted."""
        return self.by_key().values()

    def by_key(self) -> dict[UnitKey, Wanted]:
        """Return the same, by key."""
        if self._wanted is None:
            records = self._store.units()
            self._wanted = {
                (record.tenant, record.name): self._to_wanted(record) for record in records
            }
            self._forget_parsed()
            self.keep_models()
        return self._wanted

    def refresh(self, key: UnitKey) -> None:
        """Look anew at one unit: that is all that has changed."""
        if self._wanted is None:
            return
        try:
            record = self._store.unit(*key)
        except StoreError:
            self.invalidate()  # the change is there, and is to be seen when it can be
            raise
        if record is None:
            self._wanted.pop(key, None)
            self.keep_models()
            return
        is_new = key not in self._wanted
        self._wanted[key] = unit = self._to_wanted(record)
        named = {release.revision for release in (unit.target, unit.serving) if release}
        for place in [known for known in self._parsed if known[:2] == key]:
            if place[2] not in named:
                del self._parsed[place]
        if is_new:
            self._wanted = dict(sorted(self._wanted.items()))

    def invalidate(self) -> None:
        """Look anew at what is wanted, and at what of it is here."""
        self._wanted = None
        self._keys = None

    def keys(self) -> tuple[KeyEntry, ...]:
        """Return the keys in force."""
        if self._keys is None:
            self._keys = self._store.keys_in_force()
        return self._keys

    def find(self, tenant: str, name: str) -> Wanted:
        """Return a unit, also one that is being deleted.

        Raises:
            UnitNotFound: there is none.
        """
        unit = self.by_key().get((tenant, name))
        if unit is None:
            raise unit_not_found(name)
        return unit

    def keep_models(self, *more: str) -> None:
        """Say which models are needed: what units have, and these digests.

        Raises:
            ModelError: these digests cannot be protected from being collected.
        """
        wanted = self._wanted or {}
        needed = {
            digest
            for unit in wanted.values()
            for release in unit.releases
            for digest in release.digests
        }
        if not more or self._kept is None:
            pins = {digest for text in self._store.pins() for digest in decode_pins(text).digests}
            kept = frozenset(pins).union(more)
        else:
            kept = self._kept.union(more)
        self._models.need({*needed, *more})
        if kept == self._kept:
            return
        try:
            self._models.keep(kept)
        except ModelError as error:
            self._kept = None  # the next change tries again
            if more:
                raise
            log.warning("what models are needed cannot be written down problem=%s", error)
        else:
            self._kept = kept

    def _forget_parsed(self) -> None:
        assert self._wanted is not None
        living = {
            (release.tenant, release.name, release.revision)
            for unit in self._wanted.values()
            for release in (unit.target, unit.serving)
            if release
        }
        self._parsed = {place: self._parsed[place] for place in self._parsed.keys() & living}
        pins = {unit.target.pin for unit in self._wanted.values()}
        pins |= {unit.serving.pin for unit in self._wanted.values() if unit.serving}
        digests = {pin.digest for pin in pins if pin}
        self._loaded = {digest: self._loaded[digest] for digest in self._loaded.keys() & digests}

    def _parse(self, place: tuple[str, str, str], spec_json: str) -> Unit:
        """Return a stored unit, read once: a thousand of them take their time."""
        known = self._parsed.get(place)
        if known is None or known[0] != spec_json:
            known = self._parsed[place] = (spec_json, unit_from_json(spec_json))
        return known[1]

    async def pin_all(self) -> bool:
        """Pin models of revisions that are not pinned yet; return whether all are now.

        Raises:
            StoreError: the store cannot be read or written now.
        """
        self.unpinned = anyio.Event()
        bare = [
            (release, release.unit)
            for unit in list(self.wanted())
            for release in unit.releases
            if release.unit and not release.pin and not release.remotes
        ]
        places = {(release.tenant, release.name, release.revision) for release, _ in bare}
        self._pin_problems = {
            place: self._pin_problems[place] for place in self._pin_problems.keys() & places
        }
        for release, unit in bare:
            await self._pin_late(release, unit)
        return not self._pin_problems

    async def _pin_late(self, release: Release, unit: Unit) -> None:
        place = (release.tenant, release.name, release.revision)
        try:
            pins = await self._models.pin(unit)
            self.keep_models(*pins.digests)
            self._store.set_pin(*place, encode_pins(pins))
        except ModelError as error:
            self._pin_problems[place] = str(error)
        else:
            self._pin_problems.pop(place, None)
        self.refresh((release.tenant, release.name))
        self._wake()

    def freshen(self, unit: Wanted) -> Wanted:
        """Return the unit with how far its model is now."""
        target = unit.target
        if target.pin is None or (target.model is not None and target.host is not None):
            return unit
        return replace(unit, target=self._look(target, target.pin))

    def _to_wanted(self, record: UnitRecord) -> Wanted:
        tenant, name = record.tenant, record.name
        target = self.to_release(tenant, name, record.wanted)
        serving = None
        if record.serving is not None:
            same = record.serving.revision == record.wanted.revision
            serving = target if same else self.to_release(tenant, name, record.serving)
        failed = None
        if record.failed is not None:
            failed = FailedRollout(record.failed, record.failed_why or "")
        return Wanted(
            tenant,
            name,
            target,
            serving,
            record.created_s,
            record.updated_s,
            deleted=record.deleted_s is not None,
            proven=record.proven,
            failed=failed,
        )

    def to_release(
        self, tenant: str, name: str, record: RevisionRecord, *, pull: bool = True
    ) -> Release:
        """Return a revision as it can be run here; `pull`: have its model taken in."""
        bare = Release(tenant, name, record.revision, None)
        try:
            unit = self._parse((tenant, name, record.revision), record.spec_json)
        except SpecError as error:
            return replace(bare, problem=_unreadable(name, error))
        release = replace(bare, unit=unit)
        if release.remotes:
            return release
        if record.pin_json is None:
            self.unpinned.set()
            problem = self._pin_problems.get((tenant, name, record.revision))
            return replace(release, problem=problem, progress="its model is being looked up")
        pins = decode_pins(record.pin_json)
        if len(pins.adapters) != len(served_adapters(unit)):
            # Of an older version, which kept adapters and did not act on them.
            problem = "it was deployed before adapters were served; deploy it again"
            return replace(release, pin=pins.model, problem=problem)
        release = replace(release, pin=pins.model, adapter_pins=pins.adapters)
        return self._look(release, pins.model) if pull else release

    def _look(self, release: Release, pin: ModelPin) -> Release:
        """Return a release with what is here of its model and adapters; the rest is taken in."""
        adapters = [self._models.find(each) for each in release.adapter_pins]
        files = tuple(found.model for found in adapters if found.model is not None)
        release = replace(release, adapter_files=files)
        found = self._models.find(pin)
        model = found.model or self._loaded.get(pin.digest)
        if found.model is not None:
            self._loaded[pin.digest] = found.model
        elif model is not None:
            kept = replace(release, model=model, problem=None, progress=None)
            if self._is_up(kept.host):
                return kept  # its file is gone, and what is loaded of it serves on
            model = None
        every = (found, *adapters)
        return replace(
            release,
            model=model,
            problem=next((each.problem for each in every if each.problem), None),
            progress=next((each.progress for each in every if each.progress), None),
        )


def unit_not_found(name: str) -> UnitNotFound:
    """Return the error for a unit that is not there."""
    return UnitNotFound(f"there is no unit '{name}'; `sits iu list` lists those that there are")


def _unreadable(name: str, error: SpecError) -> str:
    return (
        f"the stored unit '{name}' cannot be read by this version ({error}); deploy it again, or "
        "delete it"
    )
