"""What control knows of one host and of one instance, and what it notes for people.

Only `World` changes them.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from sits.control._lifecycle import (
    HOST_TRANSITIONS,
    TRANSITIONS,
    Event,
    HostEvent,
    HostState,
    Lifecycle,
    State,
)
from sits.control._names import variant_of
from sits.control._wanted import Release, UnitKey
from sits.policy import InstanceView, Phase
from sits.wire import Instance, UnitAdapter, UnitPrompt

# A unit, its prompt and the adapters with which that is computed.
Lesson = tuple[str, UnitPrompt, tuple[UnitAdapter, ...]]


class NoteKind(StrEnum):
    """Whether somebody should look."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True)
class Note:
    """Something that happened to a unit, for people.

    Attributes:
        reason: one word for scripts.
    """

    key: UnitKey
    reason: str
    message: str
    kind: NoteKind = NoteKind.NORMAL


class TemplateState(StrEnum):
    """Where a tenant's template on a host is."""

    OPENING = "opening"
    READY = "ready"
    CLOSING = "closing"
    FAILED = "failed"


@dataclass
class TrackedHost:
    """A base host that was asked for.

    Attributes:
        told_s: when it was told to start, or first heard of.
        templates: where each tenant's template is.
        closing_s: when those that close were told to.
        taught: the lessons that each tenant's template was told of in its life.
        learning: how many of them it has not done with.
        fell_loading: its link was lost before its model was loaded.
    """

    name: str
    told_s: float = 0.0
    templates: dict[str, TemplateState] = field(default_factory=dict)
    closing_s: dict[str, float] = field(default_factory=dict)
    taught: dict[str, set[Lesson]] = field(default_factory=dict)
    fell_loading: bool = False
    learning: dict[str, int] = field(default_factory=dict)
    life: Lifecycle[HostState, HostEvent] = field(
        default_factory=lambda: Lifecycle(HOST_TRANSITIONS, HostState.STARTING)
    )

    def set_template(self, tenant: str, state: TemplateState | None) -> None:
        """Note where a tenant's template is; None: nowhere. In a new life nothing is taught."""
        self.closing_s.pop(tenant, None)
        if state is None:
            self.templates.pop(tenant, None)
        else:
            self.templates[tenant] = state
        if state is not TemplateState.READY:
            self.taught.pop(tenant, None)
            self.learning.pop(tenant, None)


@dataclass
class TrackedInstance:
    """An instance that was asked for.

    Attributes:
        told_s: when it was last told to start or to stop.
        drain_s: how long it then had for its running requests.
        stops: how often it was told to stop.
        is_canary: it was started to see whether a revision comes up that takes no traffic yet.
        is_cold: requests waited for it already while its model was taken in.
    """

    name: str
    tenant: str
    unit: str
    host: str
    value: Instance | None = None
    told_s: float = 0.0
    drain_s: float = 0.0
    stops: int = 0
    is_canary: bool = False
    is_cold: bool = False
    life: Lifecycle[State, Event] = field(
        default_factory=lambda: Lifecycle(TRANSITIONS, State.STARTING)
    )

    @property
    def key(self) -> UnitKey:
        """Whose it is."""
        return self.tenant, self.unit

    @property
    def variant(self) -> str:
        """What it was started with, where that differs on one host."""
        return variant_of(self.name)

    def serves(self, release: Release) -> bool:
        """Return whether it is of this revision, or of one that runs as it does."""
        return (self.host, self.variant) == (release.host, release.variant)

    @property
    def view(self) -> InstanceView:
        """What the policy is shown of it."""
        capacity = self.value.capacity if self.value else 0
        return InstanceView(self.name, Phase(str(self.life.state)), capacity)

    def stop(self, drain_s: float, now_s: float) -> None:
        """Note that it is told to stop, for the first time or again."""
        if self.life.state is not State.DRAINING:
            self.life.advance(Event.STOP)
        self.told_s, self.drain_s = now_s, drain_s
        self.stops += 1
