"""Every pair of state and event, for instances and for hosts."""

import itertools

import pytest

from sits.control import (
    HOST_TRANSITIONS,
    TRANSITIONS,
    Event,
    HostEvent,
    HostState,
    Lifecycle,
    LifecycleError,
    State,
)

# Written out apart from the tables: state -> event -> state; what is not here is illegal.
INSTANCES = {
    "starting": {"came_up": "ready", "stop": "draining", "ended": "gone"},
    "ready": {"stop": "draining", "ended": "gone"},
    "draining": {"came_up": "draining", "ended": "gone"},
    "gone": {},
}
HOSTS = {
    "starting": {"up": "connecting", "stop": "stopping", "down": "gone"},
    "connecting": {"loaded": "ready", "link_lost": "lost", "stop": "stopping", "down": "gone"},
    "ready": {"link_lost": "lost", "stop": "stopping", "down": "gone"},
    "lost": {"stop": "stopping", "down": "gone"},
    "stopping": {
        "up": "stopping",
        "loaded": "stopping",
        "link_lost": "stopping",
        "down": "gone",
    },
    "gone": {},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_step_of_an_instance_is_as_written_or_refused(state: State, event: Event) -> None:
    life = Lifecycle(TRANSITIONS, state)
    expected = INSTANCES[state].get(event)
    if expected is None:
        with pytest.raises(LifecycleError, match=f"'{event}' cannot happen"):
            life.advance(event)
        assert life.state is state
    else:
        assert life.advance(event) == expected == life.state


@pytest.mark.parametrize(("state", "event"), list(itertools.product(HostState, HostEvent)))
def test_every_step_of_a_host_is_as_written_or_refused(state: HostState, event: HostEvent) -> None:
    life = Lifecycle(HOST_TRANSITIONS, state)
    expected = HOSTS[state].get(event)
    if expected is None:
        with pytest.raises(LifecycleError, match=f"'{event}' cannot happen"):
            life.advance(event)
        assert life.state is state
    else:
        assert life.advance(event) == expected == life.state


def test_only_advance_sets_a_state() -> None:
    life = Lifecycle(TRANSITIONS, State.READY)
    with pytest.raises(AttributeError):
        life.state = State.GONE  # type: ignore[misc]
