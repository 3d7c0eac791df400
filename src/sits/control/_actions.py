"""What a plan is: orders, what to remember, and when to think again."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sits.control._tracked import Note, NoteKind
from sits.control._wanted import FailedRollout, UnitKey
from sits.policy import Backoff, ScaleState, TemplateKey, TemplateUse
from sits.wire import (
    CloseTemplate,
    OpenTemplate,
    StartHost,
    StartInstance,
    StopHost,
    StopInstance,
    TeachPrefix,
)

Message = (
    StartHost | StopHost | OpenTemplate | CloseTemplate | TeachPrefix | StartInstance | StopInstance
)


@dataclass(frozen=True)
class Order:
    """One message to be sent: to a host, or to the node.

    Attributes:
        is_canary: it starts an instance of a revision that takes no traffic yet.
        is_cold: it starts an instance for which requests waited while its model was taken in.
    """

    message: Message
    host: str | None = None
    is_canary: bool = False
    is_cold: bool = False


@dataclass
class Plan:
    """What to do in one turn.

    Attributes:
        orders: in the order in which they are sent.
        promote: units whose newest revision is to take traffic; the rest of such a unit's plan
            is made when it does.
        prove: units of whose revision that takes traffic an instance is up for the first time.
        revert: units whose newest revision took traffic and cannot serve, and why.
        purge: units whose records may go.
        due_s: when to make the next plan though nothing has happened.
        broken: hosts that are stopped since they, or something on them, took too long.
        notes: what people are told of it.
        kept: the templates that are to be there.
        closing: those that are there and are to go, and why.
        template_uses: what to remember of them.
        cold: units whose requests wait, or waited, for their model to be taken in.
        scales, canary_backoffs, host_backoffs, template_backoffs: what to remember; the rest is
            forgotten.
    """

    orders: list[Order] = field(default_factory=list)
    promote: list[UnitKey] = field(default_factory=list)
    prove: list[UnitKey] = field(default_factory=list)
    revert: dict[UnitKey, FailedRollout] = field(default_factory=dict)
    purge: list[UnitKey] = field(default_factory=list)
    due_s: float | None = None
    broken: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    kept: frozenset[TemplateKey] = frozenset()
    closing: dict[TemplateKey, str] = field(default_factory=dict)
    template_uses: dict[TemplateKey, TemplateUse] = field(default_factory=dict)
    cold: set[UnitKey] = field(default_factory=set)
    scales: dict[UnitKey, ScaleState] = field(default_factory=dict)
    canary_backoffs: dict[UnitKey, Backoff] = field(default_factory=dict)
    host_backoffs: dict[str, Backoff] = field(default_factory=dict)
    template_backoffs: dict[TemplateKey, Backoff] = field(default_factory=dict)

    def note_due(self, due_s: float | None) -> None:
        """Take an earlier time for the next plan."""
        if due_s is not None and (self.due_s is None or due_s < self.due_s):
            self.due_s = due_s

    def note(
        self, key: UnitKey, reason: str, message: str, kind: NoteKind = NoteKind.NORMAL
    ) -> None:
        """Note for people what is done about a unit, and why."""
        self.notes.append(Note(key, reason, message, kind))


@dataclass(frozen=True)
class Limits:
    """The settings that plans need, and the source of instances' names (unit, variant).

    Attributes:
        memory_reserve: the share of the machine's memory that is to be left free.
    """

    idle_s: float
    drain_s: float
    start_s: float
    load_s: float
    make_name: Callable[[str, str], str]
    cool_s: float = 3600.0
    memory_reserve: float = 0.1
