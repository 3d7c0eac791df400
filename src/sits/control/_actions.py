"""What a plan is: orders, what to remember, and when to think again."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sits.control._wanted import FailedRollout, UnitKey
from sits.control._world import Note, NoteKind
from sits.policy import Backoff, ScaleState
from sits.wire import OpenTemplate, StartHost, StartInstance, StopHost, StopInstance


@dataclass(frozen=True)
class Order:
    """One message to be sent: to a host, or to the node.

    Attributes:
        is_canary: it starts an instance of a revision that takes no traffic yet.
    """

    message: StartHost | StopHost | OpenTemplate | StartInstance | StopInstance
    host: str | None = None
    is_canary: bool = False


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
    scales: dict[UnitKey, ScaleState] = field(default_factory=dict)
    canary_backoffs: dict[UnitKey, Backoff] = field(default_factory=dict)
    host_backoffs: dict[str, Backoff] = field(default_factory=dict)
    template_backoffs: dict[tuple[str, str], Backoff] = field(default_factory=dict)

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
    """The settings that plans need, and the source of instances' names (unit, variant)."""

    idle_s: float
    drain_s: float
    start_s: float
    load_s: float
    make_name: Callable[[str, str], str]
