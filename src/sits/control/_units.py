"""The units of the store as the loop and the API see them, and what the API does to them."""

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sits.control._catalog import Catalog, unit_not_found
from sits.control._clock import Clock
from sits.control._errors import RevisionNotFound
from sits.control._lifecycle import State
from sits.control._models import Models, PullEnd
from sits.control._notes import deploy_notes
from sits.control._pins import encode_pins
from sits.control._room import Room
from sits.control._settings import Settings
from sits.control._status import unit_status
from sits.control._table import Routes
from sits.control._tracked import NoteKind
from sits.control._wanted import FailedRollout, UnitKey, Wanted
from sits.control._world import World
from sits.sandbox import SandboxError, check_prompt
from sits.spec import (
    EngineKind,
    Loaded,
    SpecError,
    Unit,
    canonical_json,
    revision_id,
)
from sits.store import EventRecord, RevisionRecord, RouteRecord, Store, StoreError
from sits.wire import UnitKind, UnitRoute

_MAX_UNWRITTEN = 5000

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Deployed:
    """What a deploy did."""

    unit: Wanted
    created: bool
    notes: tuple[str, ...]


class Units:
    """What is done to units, by the loop and by the API."""

    def __init__(
        self,
        store: Store,
        world: World,
        clock: Clock,
        models: Models,
        room: Room,
        settings: Settings,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._world = world
        self._clock = clock
        self._models = models
        self._room = room
        self._settings = settings
        self._wake = wake
        self._causes: dict[UnitKey, str] = {}
        # A store that fails for long costs events, not memory.
        self._unwritten: deque[EventRecord] = deque(maxlen=_MAX_UNWRITTEN)
        self.catalog = Catalog(store, models, wake, world.is_up)

    # what the loop does

    def purge(self, keys: Iterable[UnitKey]) -> None:
        """Remove the records of deleted units whose instances are gone."""
        for tenant, name in keys:
            self._store.purge_unit(tenant, name)
            self._world.note((tenant, name), "Deleted", "nothing of it runs any more")
            self.catalog.refresh((tenant, name))

    def promote(self, keys: Iterable[UnitKey]) -> None:
        """Have units' newest revisions take traffic."""
        for key in keys:
            revision = self.catalog.by_key()[key].target.revision
            cause = self._causes.get(key, "deploy")
            self._store.serve_revision(*key, revision, cause=cause, now_s=self._clock.unix_s())
            self._causes.pop(key, None)
            self._world.promoted(key)
            self._world.note(key, "RolledOut", f"revision {revision} takes traffic ({cause})")
            self.catalog.refresh(key)

    def prove(self, keys: Iterable[UnitKey]) -> None:
        """Note that units' revisions that take traffic can serve."""
        for key in keys:
            self._store.prove_revision(*key, self.catalog.by_key()[key].current.revision)
            self.catalog.refresh(key)

    def revert(self, failed: Mapping[UnitKey, FailedRollout]) -> None:
        """Have the revisions that could serve take units' traffic again."""
        for key, rollout in failed.items():
            former = self.catalog.by_key()[key].proven
            assert former is not None  # else there is nothing to go back to, and no such plan
            self._store.revert_unit(
                *key,
                former,
                failed=(rollout.revision, rollout.message),
                now_s=self._clock.unix_s(),
            )
            self._world.reverted(key)
            message = f"revision {former} takes traffic again: {rollout.message}"
            self._world.note(key, "RolloutFailed", message, NoteKind.WARNING)
            self.catalog.refresh(key)

    def flush_notes(self) -> None:
        """Log what happened, once, and write it down, as soon as that can be done."""
        notes, self._world.notes = self._world.notes, []
        now_s = self._clock.unix_s()
        for note in notes:
            log.info("event=%s tenant=%s unit=%s message=%r", note.reason, *note.key, note.message)
            self._unwritten.append(
                EventRecord(*note.key, str(note.kind), note.reason, note.message, now_s, now_s)
            )
        if self._unwritten:
            self._store.add_events(tuple(self._unwritten))
            self._unwritten.clear()

    def on_pull(self, end: PullEnd) -> None:
        """The taking in of a model began or ended."""
        kind = NoteKind.WARNING if end.problem else NoteKind.NORMAL
        try:
            units = list(self.catalog.wanted())
        except StoreError as error:  # whose it is can be told later, that it is there cannot
            log.warning("units are not told of their model problem=%s", error)
            units = []
        for unit in units:
            if any(end.digest in release.digests for release in unit.releases):
                self._world.note(unit.key, end.reason, end.message, kind)
        self.catalog.invalidate()
        self._wake()

    # what the API does

    async def deploy(self, tenant: str, loaded: Loaded, *, dry_run: bool = False) -> Deployed:
        """Make a unit wanted, or say what would be.

        Raises:
            SpecError: its tenant is another, or its prompt lies in a file that was not put in, or
                is no template.
            ModelError: its model cannot be run here, or an adapter is none of that model.
            PlatformFull: gateways could not be told of it beside the others.
        """
        unit = loaded.unit
        _check_tenant(unit, tenant)
        _check_inlined(unit)
        _check_template(unit)
        pins = None
        if unit.engine.kind is not EngineKind.OPENAI:
            pins = await self._models.pin(unit)
        now_s = self._clock.unix_s()
        revision = RevisionRecord(
            revision_id(unit, *(pins.digests if pins else ())),
            canonical_json(unit),
            now_s,
            encode_pins(pins) if pins else None,
        )
        planned = self._planned(tenant, unit, revision, now_s)
        route = self._check_room(planned)
        former = self.catalog.by_key().get(planned.key)
        created = former is None or former.deleted
        notes = loaded.notes + deploy_notes(planned, former)
        if dry_run:
            return Deployed(planned, created, notes)
        if pins is not None:
            for digest in pins.digests:
                self._models.retry(digest)
            # Before the revision is there: nothing may take it.
            self.catalog.keep_models(*pins.digests)
        self._store.put_unit(tenant, unit.name, revision, now_s=now_s)
        self._room.update([route], [])
        self._causes.pop(planned.key, None)
        verb = "deployed" if created else "deployed over the former one"
        self._after_change(planned.key, "Deployed", f"revision {revision.revision} was {verb}")
        return Deployed(self.catalog.find(tenant, unit.name), created, notes)

    def rollback(self, tenant: str, name: str, to: str | None) -> Wanted:
        """Make an earlier revision the wanted one.

        Args:
            tenant: whose unit.
            name: the unit.
            to: a revision, or its head; None: what serves while a newer one rolls out, else
                what served before.

        Raises:
            UnitNotFound: there is none.
            RevisionNotFound: there is none to go back to, or several begin so.
        """
        unit = self.catalog.find(tenant, name)
        revision = self._earlier(unit, to)
        if unit.deleted or not self._store.want_revision(
            tenant, name, revision, self._clock.unix_s()
        ):
            raise unit_not_found(name)
        self._causes[unit.key] = "rollback"
        message = f"from revision {unit.target.revision} to {revision}"
        self._after_change(unit.key, "RolledBack", message)
        return self.catalog.find(tenant, name)

    def _earlier(self, unit: Wanted, to: str | None) -> str:
        if to is not None:
            known = [item.revision for item in self._store.revisions(*unit.key)]
            found = [revision for revision in known if revision.startswith(to)]
            if len(found) == 1:
                return found[0]
            what = f"{len(found)} revisions begin so" if found else "there is no such revision"
            raise RevisionNotFound(
                f"'{to}': {what}; `sits iu history {unit.name}` lists those that there are"
            )
        if unit.is_rolling:
            return unit.current.revision
        for route in reversed(self._store.routes(*unit.key)):
            if route.revision != unit.current.revision:
                return route.revision
        raise RevisionNotFound(
            f"the unit '{unit.name}' has served no other revision than {unit.current.revision}; "
            "name one with --to"
        )

    def delete(self, tenant: str, name: str) -> Wanted:
        """Make a unit unwanted; it goes when its instances have drained.

        Raises:
            UnitNotFound: there is none.
        """
        unit = self.catalog.find(tenant, name)
        if self._store.delete_unit(tenant, name, self._clock.unix_s()):
            self._room.update([], [unit.key])
            self._after_change(unit.key, "Deleting", "it was deleted; what runs may finish")
        return self.catalog.find(tenant, name)

    def history(self, unit: Wanted) -> tuple[tuple[RouteRecord, ...], tuple[RevisionRecord, ...]]:
        """Return where a unit's traffic went, and its revisions; oldest first."""
        return self._store.routes(*unit.key), self._store.revisions(*unit.key)

    def revision(self, unit: Wanted, revision: str) -> dict[str, Any]:
        """Return what was deployed as a revision.

        Raises:
            RevisionNotFound: there is none.
        """
        record = self._store.revision(*unit.key, self._earlier(unit, revision))
        assert record is not None
        return _spec_of(record.spec_json, unit.name)

    def events(self, tenant: str, name: str, after_seq: int) -> tuple[EventRecord, ...]:
        """Return a unit's events, also of one that is gone.

        Raises:
            UnitNotFound: there is neither a unit nor an event of one.
        """
        self.flush_notes()
        events = self._store.events(tenant, name, after_seq=after_seq)
        if not events and (tenant, name) not in self.catalog.by_key():
            raise unit_not_found(name)
        return events

    def describe(self, unit: Wanted) -> dict[str, Any]:
        """Return a unit as the API shows it."""
        described: dict[str, Any] = msgspec.to_builtins(self.whole(unit))
        return described

    def outline(self, unit: Wanted) -> dict[str, Any]:
        """Return what a line about a unit says, as JSON's types."""
        unit = self.catalog.freshen(unit)
        status = unit_status(self._world, unit, self._clock.monotonic_s(), brief=True)
        return {
            "name": unit.name,
            "revision": unit.target.revision,
            "model": unit.target.spec["model"],
            "phase": status.phase,
            "reason": status.reason,
            "message": status.message,
            "tier": status.tier,
            "starts": status.starts,
            "ready_instances": status.instances[State.READY],
            "max_instances": unit.target.scale.max_instances,
        }

    def whole(self, unit: Wanted) -> dict[str, Any]:
        """Return a unit as `describe`, with objects in it that msgspec encodes: for many units."""
        unit = self.catalog.freshen(unit)
        status = unit_status(self._world, unit, self._clock.monotonic_s())
        spec = unit.target.spec
        pin = unit.target.pin
        return {
            "name": unit.name,
            "revision": unit.target.revision,
            "endpoint": self.endpoint(unit),
            "model": spec["model"],
            "model_digest": pin.digest if pin else None,
            "created_s": unit.created_s,
            "updated_s": unit.updated_s,
            "spec": spec,
            "status": status,
        }

    def endpoint(self, unit: Wanted) -> str:
        """Return the URL that a unit answers on: its own, where it has a template to fill."""
        base = self._settings.public_url.rstrip("/")
        if unit.target.kind is UnitKind.EMBEDDING:
            return f"{base}/v1/embeddings"
        prompt = unit.target.unit.prompt if unit.target.unit else None
        if prompt is None or prompt.template is None:
            return f"{base}/v1/chat/completions"
        return f"{base}/iu/{unit.name}/v1/query"

    # parts

    def _after_change(self, key: UnitKey, reason: str, message: str) -> None:
        self._world.note(key, reason, message)
        self.catalog.refresh(key)
        unit = self.catalog.by_key().get(key)
        hosts = [release.host for release in unit.releases if release.host] if unit else []
        self._world.forgive(key, hosts)
        self._wake()

    def _planned(self, tenant: str, unit: Unit, revision: RevisionRecord, now_s: float) -> Wanted:
        former = self.catalog.by_key().get((tenant, unit.name))
        living = former if former is not None and not former.deleted else None
        release = self.catalog.to_release(tenant, unit.name, revision, pull=False)
        serving = living.serving if living else None
        created_s = living.created_s if living else now_s
        return Wanted(tenant, unit.name, release, serving, created_s, now_s)

    def _check_room(self, planned: Wanted) -> UnitRoute:
        """Return what gateways will be told of a unit when it serves, if there is room for it."""
        served = replace(planned, serving=None)
        route = Routes(self._world, self._settings).make_one(served)
        self._room.check(route)
        return route


def _spec_of(spec_json: str, name: str) -> dict[str, Any]:
    try:
        spec: dict[str, Any] = json.loads(spec_json)
    except ValueError:
        return {"name": name, "model": "unknown"}
    return spec


def _check_tenant(unit: Unit, tenant: str) -> None:
    if unit.tenant not in (None, tenant):
        raise SpecError(
            f"is '{unit.tenant}', and the key that deploys it is of '{tenant}'; use a key of that "
            "tenant, or leave the field out",
            field="tenant",
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
