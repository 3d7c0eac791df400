"""How many instances a unit should have.

Rules, in their order of precedence:

1. Instances of every phase together never number more than `max_instances` by a start.
2. An instance that is not ready is never stopped.
3. While none is ready, at most one is starting (single flight).
4. No start before the backoff after failures is over.
5. Enough instances run for what waits and runs, and at least `min_instances`.
6. With nothing in flight for `idle_s`, all above `min_instances` are stopped. A surplus that
   lasts for `idle_s` is stopped down to the most that was needed in that time.

`now_s` is monotonic; should it go back, waiting times lengthen and nothing else happens.
"""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sits.policy._backoff import Backoff, after_health, backoff_due_s, may_try


class Phase(StrEnum):
    """What this decision needs to know of an instance's life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


@dataclass(frozen=True)
class InstanceView:
    """One instance. `capacity` (requests at once) is 0 while it is not known."""

    name: str
    phase: Phase
    capacity: int = 0


@dataclass(frozen=True)
class Observed:
    """A unit now: requests waiting and running at all gateways, and its instances, oldest first.

    Attributes:
        reserved: places under `max_instances` that others take (an older model's instances).
    """

    waiting: int
    running: int
    instances: tuple[InstanceView, ...] = ()
    reserved: int = 0


@dataclass(frozen=True)
class ScaleSpec:
    """How a unit may scale."""

    min_instances: int
    max_instances: int
    idle_s: float = 60.0


@dataclass(frozen=True)
class ScaleState:
    """What is remembered between decisions.

    Attributes:
        idle_since_s: since when nothing is in flight; None while something is.
        surplus_since_s: since when there are more instances than needed.
        surplus_peak: the most instances needed in that time.
    """

    backoff: Backoff = field(default_factory=Backoff)
    idle_since_s: float | None = None
    surplus_since_s: float | None = None
    surplus_peak: int = 0


@dataclass(frozen=True)
class Start:
    """Start so many instances."""

    count: int


@dataclass(frozen=True)
class Stop:
    """Stop this instance."""

    name: str


@dataclass(frozen=True)
class Decision:
    """What to do, what to remember, and why.

    Attributes:
        due_s: when to decide again though nothing has happened; None: not needed.
    """

    actions: tuple[Start | Stop, ...]
    next_state: ScaleState
    reason: str
    due_s: float | None = None


def decide_instances(
    state: ScaleState, observed: Observed, spec: ScaleSpec, now_s: float
) -> Decision:
    """Decide one unit's instances.

    Args:
        state: the last decision's `next_state`, with failures noted in its backoff since.
        observed: the unit now.
        spec: its bounds.
        now_s: the monotonic time now.
    """
    now = _count(observed, spec)
    state = _remember(state, now, now_s)
    keep, reason = _to_keep(state, now.want, spec, now_s)
    if _lasted(state.surplus_since_s, spec.idle_s, now_s):
        state = replace(state, surplus_since_s=now_s, surplus_peak=now.want)
    surplus = min(max(0, now.active - keep), len(now.ready))
    if surplus:
        stops = tuple(Stop(name) for name in now.ready[len(now.ready) - surplus :])
        return Decision(stops, state, reason, _due_s(state, spec, now.active - surplus, now_s))
    start, reason = _to_start(state, now, now_s)
    actions = (Start(start),) if start else ()
    return Decision(actions, state, reason, _due_s(state, spec, now.active, now_s))


@dataclass(frozen=True)
class _Counts:
    ready: tuple[str, ...]
    starting: int
    demand: int
    want: int
    room: int

    @property
    def active(self) -> int:
        return len(self.ready) + self.starting


def _count(observed: Observed, spec: ScaleSpec) -> _Counts:
    ready = [item for item in observed.instances if item.phase is Phase.READY]
    demand = observed.waiting + observed.running
    capacity = max(1, min((item.capacity for item in ready), default=1))
    needed = max(math.ceil(demand / capacity), spec.min_instances)
    return _Counts(
        ready=tuple(item.name for item in ready),
        starting=sum(item.phase is Phase.STARTING for item in observed.instances),
        demand=demand,
        want=min(needed, spec.max_instances),
        room=spec.max_instances - observed.reserved - len(observed.instances),
    )


def _remember(state: ScaleState, now: _Counts, now_s: float) -> ScaleState:
    idle_since_s = None if now.demand else _first(state.idle_since_s, now_s)
    surplus_since_s, peak = None, 0
    if now.want < now.active:
        surplus_since_s = _first(state.surplus_since_s, now_s)
        peak = now.want if state.surplus_since_s is None else max(now.want, state.surplus_peak)
    backoff = after_health(state.backoff, healthy=bool(now.ready), now_s=now_s)
    return ScaleState(backoff, idle_since_s, surplus_since_s, peak)


def _first(since_s: float | None, now_s: float) -> float:
    return now_s if since_s is None else since_s


def _to_keep(state: ScaleState, want: int, spec: ScaleSpec, now_s: float) -> tuple[int, str]:
    if _lasted(state.idle_since_s, spec.idle_s, now_s):
        return spec.min_instances, "nothing in flight for the idle time"
    if _lasted(state.surplus_since_s, spec.idle_s, now_s):
        return max(want, state.surplus_peak), "more instances than needed for the idle time"
    return spec.max_instances, "more instances than max_instances"


def _lasted(since_s: float | None, window_s: float, now_s: float) -> bool:
    # The same sum as in `_due_s`: a difference could round to just under the window at the very
    # time that was due, and nothing would wake the caller again.
    return since_s is not None and now_s >= since_s + window_s


def _to_start(state: ScaleState, now: _Counts, now_s: float) -> tuple[int, str]:
    missing = now.want - now.active
    if missing <= 0:
        return 0, "as many instances as needed"
    if now.room <= 0:
        return 0, "max_instances is reached"
    if not may_try(state.backoff, now_s):
        return 0, f"waiting to try again after: {state.backoff.reason}"
    if not now.ready or state.backoff.failures:
        return (0, "one is starting") if now.starting else (1, "the first one")
    return min(missing, now.room), "more is in flight than the instances take"


def _due_s(state: ScaleState, spec: ScaleSpec, active: int, now_s: float) -> float | None:
    times = [backoff_due_s(state.backoff, now_s)]
    if active > spec.min_instances:
        windows = (state.idle_since_s, state.surplus_since_s)
        times.extend(since_s + spec.idle_s for since_s in windows if since_s is not None)
    return min((time for time in times if time is not None and time > now_s), default=None)
