"""The lives of instances and of hosts: one table each, and `advance` as the only setter.

An instance that is told to stop while it starts is a cancelled start: it drains (nothing) and
ends. A host whose link breaks is lost: it is stopped and then started anew, never adopted.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

from sits.control._errors import ControlError


class LifecycleError(ControlError):
    """An event that cannot happen in this state."""

    code = "illegal_transition"


class State(StrEnum):
    """Where an instance is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    GONE = "gone"


class Event(StrEnum):
    """What happens to an instance."""

    CAME_UP = "came_up"
    STOP = "stop"
    ENDED = "ended"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.STARTING, Event.CAME_UP): State.READY,
    (State.STARTING, Event.STOP): State.DRAINING,
    (State.STARTING, Event.ENDED): State.GONE,
    (State.READY, Event.STOP): State.DRAINING,
    (State.READY, Event.ENDED): State.GONE,
    # It came up while the order to stop was on its way.
    (State.DRAINING, Event.CAME_UP): State.DRAINING,
    (State.DRAINING, Event.ENDED): State.GONE,
}


class HostState(StrEnum):
    """Where a base host is in its life."""

    STARTING = "starting"
    CONNECTING = "connecting"
    READY = "ready"
    LOST = "lost"
    STOPPING = "stopping"
    GONE = "gone"


class HostEvent(StrEnum):
    """What happens to a base host."""

    UP = "up"
    LOADED = "loaded"
    LINK_LOST = "link_lost"
    STOP = "stop"
    DOWN = "down"


HOST_TRANSITIONS: dict[tuple[HostState, HostEvent], HostState] = {
    (HostState.STARTING, HostEvent.UP): HostState.CONNECTING,
    (HostState.STARTING, HostEvent.STOP): HostState.STOPPING,
    (HostState.STARTING, HostEvent.DOWN): HostState.GONE,
    (HostState.CONNECTING, HostEvent.LOADED): HostState.READY,
    (HostState.CONNECTING, HostEvent.LINK_LOST): HostState.LOST,
    (HostState.CONNECTING, HostEvent.STOP): HostState.STOPPING,
    (HostState.CONNECTING, HostEvent.DOWN): HostState.GONE,
    (HostState.READY, HostEvent.LINK_LOST): HostState.LOST,
    (HostState.READY, HostEvent.STOP): HostState.STOPPING,
    (HostState.READY, HostEvent.DOWN): HostState.GONE,
    (HostState.LOST, HostEvent.STOP): HostState.STOPPING,
    (HostState.LOST, HostEvent.DOWN): HostState.GONE,
    # What was on its way when the order to stop was given.
    (HostState.STOPPING, HostEvent.UP): HostState.STOPPING,
    (HostState.STOPPING, HostEvent.LOADED): HostState.STOPPING,
    (HostState.STOPPING, HostEvent.LINK_LOST): HostState.STOPPING,
    (HostState.STOPPING, HostEvent.DOWN): HostState.GONE,
}

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


class Lifecycle(Generic[S, E]):
    """A state that only `advance` changes."""

    def __init__(self, transitions: Mapping[tuple[S, E], S], state: S) -> None:
        self._transitions = transitions
        self._state = state

    @property
    def state(self) -> S:
        """The state now."""
        return self._state

    def advance(self, event: E) -> S:
        """Take one step and return the new state.

        Raises:
            LifecycleError: the event cannot happen in this state.
        """
        following = self._transitions.get((self._state, event))
        if following is None:
            possible = sorted(known for state, known in self._transitions if state == self._state)
            raise LifecycleError(
                f"'{event}' cannot happen in the state '{self._state}'; expected one of {possible}"
            )
        self._state = following
        return following
