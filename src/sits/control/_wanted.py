"""What is wanted: units as the store has them, with their models found."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sits.control._names import host_name, remote_host_name, variant_name
from sits.models import ModelFile, ModelKind, ModelPin
from sits.policy import WHOLE_PPM, TemplateKey
from sits.spec import (
    EngineKind,
    IdleField,
    Scale,
    Serves,
    Unit,
    canonical_json,
    idle_fields,
    served_adapters,
)
from sits.wire import HostKind, RemoteEndpoint, StartHost, UnitAdapter, UnitKind, UnitPrompt

UnitKey = tuple[str, str]  # (tenant, unit's name)


@dataclass(frozen=True)
class Release:
    """One revision of a unit, as it can be run here and now.

    Attributes:
        unit: what was deployed; None when this version cannot read it.
        pin: the model that it is bound to; None where that is not known yet, or there is none.
        model: its file; None when it is not here (yet).
        problem: why it cannot be run, and may not soon.
        progress: what its model, or an adapter, is being waited for, in words.
        adapter_pins: the adapters that it is bound to.
        adapter_files: their files, in the same order; fewer while not all are here.
    """

    tenant: str
    name: str
    revision: str
    unit: Unit | None
    pin: ModelPin | None = None
    model: ModelFile | None = None
    problem: str | None = None
    progress: str | None = None
    adapter_pins: tuple[ModelPin, ...] = ()
    adapter_files: tuple[ModelFile, ...] = ()

    @property
    def digests(self) -> tuple[str, ...]:
        """Of all files that it needs."""
        return (*((self.pin.digest,) if self.pin else ()), *(p.digest for p in self.adapter_pins))

    @property
    def scale(self) -> Scale:
        """How it may scale."""
        return self.unit.scale if self.unit else Scale()

    @cached_property
    def spec(self) -> dict[str, Any]:
        """What was deployed, as JSON's types; what can be said of it where it cannot be read."""
        if self.unit is None:
            return {"name": self.name, "model": "unknown"}
        values: dict[str, Any] = json.loads(canonical_json(self.unit))
        return values

    @cached_property
    def idle_fields(self) -> tuple[IdleField, ...]:
        """What it says that this version does not act on."""
        return idle_fields(self.unit) if self.unit else ()

    @cached_property
    def remotes(self) -> tuple[RemoteEndpoint, ...]:
        """The endpoints elsewhere that serve it, in the order in which they are tried."""
        if self.unit is None or self.unit.engine.kind is not EngineKind.OPENAI:
            return ()
        name = self.unit.model.name
        return tuple(
            RemoteEndpoint(endpoint.url, endpoint.model or name, endpoint.secret)
            for endpoint in self.unit.engine.endpoints
        )

    @cached_property
    def variant(self) -> str:
        """What tells its instances from others on the same host."""
        digests = (pin.digest for pin in self.adapter_pins)
        adapters = tuple(zip(digests, self._shares_ppm, strict=True))
        return variant_name(self.remotes, self.itl_ms, adapters)

    @cached_property
    def itl_ms(self) -> float | None:
        """What 99 of 100 times between two tokens are to be within; None: it does not say.

        One for 95 of 100 is kept to as if it were for 99. Endpoints elsewhere keep their own.
        """
        slo = self.unit.slo if self.unit else None
        if slo is None or self.remotes:
            return None
        objective = slo.itl_p99 or slo.itl_p95
        return objective.base * 1e3 if objective else None

    @property
    def _shares_ppm(self) -> tuple[int, ...]:
        served = served_adapters(self.unit) if self.unit and self.adapter_pins else ()
        return tuple(each.weight.atoms if each.weight else WHOLE_PPM for each in served)

    @cached_property
    def adapters(self) -> tuple[UnitAdapter, ...]:
        """Its adapters as its instances are told of them; none while not all are here."""
        if len(self.adapter_files) < len(self.adapter_pins):
            return ()
        return tuple(
            UnitAdapter(str(file.path), pin.digest, share)
            for file, pin, share in zip(
                self.adapter_files, self.adapter_pins, self._shares_ppm, strict=True
            )
        )

    @cached_property
    def host(self) -> str | None:
        """The host that it needs; None while it cannot be run."""
        start = self.start_host
        return start.host if start else None

    @cached_property
    def start_host(self) -> StartHost | None:
        """What starts that host."""
        if self.remotes:
            name = remote_host_name(self.tenant)
            return StartHost(name, "", HostKind.REMOTE, self.tenant)
        if self.model is None or len(self.adapter_files) < len(self.adapter_pins):
            return None
        path = str(self.model.path)
        return StartHost(host_name(path), path)

    @property
    def kind(self) -> UnitKind:
        """What its model makes of a request."""
        if self.remotes and self.unit:
            is_embedding = self.unit.engine.serves is Serves.EMBEDDING
        else:
            is_embedding = self.pin is not None and self.pin.kind is ModelKind.EMBEDDING
        return UnitKind.EMBEDDING if is_embedding else UnitKind.CHAT

    @cached_property
    def prompt(self) -> UnitPrompt:
        """What is the same in all its prompts: nothing where no host here makes text for it."""
        prompt = self.unit.prompt if self.unit else None
        if prompt is None or self.remotes or self.kind is not UnitKind.CHAT:
            return UnitPrompt()
        return UnitPrompt(prompt.system, prompt.template)

    @cached_property
    def place(self) -> TemplateKey | None:
        """The host and the tenant of the template that it starts from; None: it cannot be run."""
        return (self.host, self.tenant) if self.host else None

    def runs_as(self, other: "Release") -> bool:
        """Return whether one's instances are the other's too: only what requests carry differs."""
        return self.host is not None and (self.host, self.variant) == (other.host, other.variant)


@dataclass(frozen=True)
class FailedRollout:
    """A revision that took traffic and could not serve: the former one has it again."""

    revision: str
    message: str


@dataclass(frozen=True)
class Wanted:
    """A unit as the store has it.

    What follows from its fields is computed once: each turn of the loop asks for it several
    times, of every unit.

    Attributes:
        target: the newest revision.
        serving: the revision that takes traffic; None: none was ever ready.
        deleted: it is to go as soon as its instances have.
        proven: the revision of which last an instance was up while it took traffic.
        failed: the newest revision, when it had traffic and could not serve.
    """

    tenant: str
    name: str
    target: Release
    serving: Release | None
    created_s: float
    updated_s: float
    deleted: bool = False
    proven: str | None = None
    failed: FailedRollout | None = None

    @cached_property
    def key(self) -> UnitKey:
        """How the world knows it."""
        return self.tenant, self.name

    @cached_property
    def current(self) -> Release:
        """The revision that takes traffic, or will."""
        return self.serving or self.target

    @cached_property
    def is_rolling(self) -> bool:
        """Whether a newer revision than the one that takes traffic is to take it."""
        return self.serving is not None and self.serving.revision != self.target.revision

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """The revisions that need to be kept warm: none of a unit that goes."""
        if self.deleted:
            return ()
        return (self.current, self.target) if self.is_rolling else (self.target,)

    @property
    def host(self) -> str | None:
        """The host that its traffic needs; None when it needs none."""
        return None if self.deleted else self.current.host
