"""What takes too long, and how long that is: pure.

A start has its time; then its instance is told to stop, and its unit has had a failure. A stop
has its drain and some grace; then the instance is told to end at once; after the grace once
more its host is taken for broken, since a host kills what does not obey. A host itself has its
time to come up and to load its model; then it is broken too.
"""

from collections.abc import Iterable

from sits.control._lifecycle import HostState, State
from sits.control._tracked import TrackedHost, TrackedInstance

GRACE_S = 5.0
_STOPS = 2  # orders to stop before the host is broken


def due_s(item: TrackedInstance, start_s: float) -> float | None:
    """Return when an instance must have done what it was told last; None: it has."""
    match item.life.state:
        case State.STARTING:
            return item.told_s + start_s
        case State.DRAINING:
            return item.told_s + item.drain_s + GRACE_S
        case _:
            return None


def is_overdue(item: TrackedInstance, start_s: float, now_s: float) -> bool:
    """Return whether an instance has not done in time what it was told last."""
    until_s = due_s(item, start_s)
    return until_s is not None and now_s >= until_s


def load_due_s(host: TrackedHost, load_s: float) -> float | None:
    """Return when a host must have loaded its model; None: it has, or is told to stop."""
    loading = host.life.state in (HostState.STARTING, HostState.CONNECTING)
    return host.told_s + load_s if loading else None


def is_load_overdue(host: TrackedHost, load_s: float, now_s: float) -> bool:
    """Return whether a host has not loaded its model in time."""
    until_s = load_due_s(host, load_s)
    return until_s is not None and now_s >= until_s


def hung_instance(
    host: TrackedHost, instances: Iterable[TrackedInstance], now_s: float
) -> TrackedInstance | None:
    """Return the instance for whose sake a host is taken for broken, if there is one."""
    if host.life.state is HostState.STOPPING:
        return None  # that has been done about it
    for item in instances:
        told = item.host == host.name and item.stops >= _STOPS
        if told and is_overdue(item, 0.0, now_s):
            return item
    return None
