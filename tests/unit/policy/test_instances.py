"""How many instances a unit should have: table tests."""

from dataclasses import replace

import pytest

from sits.policy import (
    Backoff,
    Decision,
    InstanceView,
    Observed,
    Phase,
    ScaleSpec,
    ScaleState,
    Start,
    Stop,
    after_failure,
    decide_instances,
)

STARTING, READY, DRAINING = Phase.STARTING, Phase.READY, Phase.DRAINING


def make_instances(*phases: Phase, capacity: int = 4) -> tuple[InstanceView, ...]:
    return tuple(
        InstanceView(f"i{number}", phase, capacity if phase is READY else 0)
        for number, phase in enumerate(phases)
    )


def decide(
    *phases: Phase,
    demand: int = 0,
    low: int = 0,
    high: int = 8,
    state: ScaleState | None = None,
    now_s: float = 0.0,
    reserved: int = 0,
) -> Decision:
    observed = Observed(demand, 0, make_instances(*phases), reserved)
    return decide_instances(state or ScaleState(), observed, ScaleSpec(low, high), now_s)


@pytest.mark.parametrize(
    ("phases", "demand", "low", "high", "started"),
    [
        ((), 0, 0, 8, 0),
        ((), 1, 0, 8, 1),
        ((), 500, 0, 8, 1),  # a burst at zero
        ((STARTING,), 500, 0, 8, 0),
        ((), 0, 3, 8, 1),  # min_instances: the first one first
        ((READY,), 0, 3, 8, 2),
        ((READY,), 4, 0, 8, 0),
        ((READY,), 5, 0, 8, 1),
        ((READY,), 500, 0, 8, 7),
        ((READY, STARTING), 9, 0, 8, 1),
        ((READY, STARTING, STARTING), 9, 0, 8, 0),
        ((DRAINING,), 1, 0, 1, 0),  # the place is taken until it is gone
        ((DRAINING,), 1, 0, 2, 1),
        ((READY, DRAINING), 500, 0, 3, 1),
    ],
)
def test_starts(phases: tuple[Phase, ...], demand: int, low: int, high: int, started: int) -> None:
    decision = decide(*phases, demand=demand, low=low, high=high)
    assert decision.actions == ((Start(started),) if started else ())


def test_places_reserved_for_others_count_against_max_instances() -> None:
    assert decide(demand=1, high=1, reserved=1).actions == ()
    assert decide(READY, demand=50, high=4, reserved=1).actions == (Start(2),)


def test_scales_to_zero_after_the_idle_window() -> None:
    first = decide(READY, READY, now_s=100.0)
    assert (first.actions, first.due_s) == ((), 160.0)
    early = decide(READY, READY, state=first.next_state, now_s=159.9)
    assert early.actions == ()
    due = decide(READY, READY, state=early.next_state, now_s=160.0)
    assert due.actions == (Stop("i0"), Stop("i1"))


def test_the_time_that_was_due_is_late_enough_whatever_the_rounding() -> None:
    since_s = 61.22359932134214  # (since_s + 60) - since_s is just under 60
    assert (since_s + 60.0) - since_s < 60.0
    first = decide(READY, now_s=since_s)
    assert first.due_s is not None
    assert decide(READY, state=first.next_state, now_s=first.due_s).actions == (Stop("i0"),)


def test_a_request_in_the_window_begins_it_anew() -> None:
    state = decide(READY, now_s=0.0).next_state
    state = decide(READY, demand=1, state=state, now_s=50.0).next_state
    state = decide(READY, state=state, now_s=55.0).next_state
    assert decide(READY, state=state, now_s=114.9).actions == ()
    assert decide(READY, state=state, now_s=115.0).actions == (Stop("i0"),)


def test_idleness_keeps_min_instances_and_stops_the_newest() -> None:
    state = decide(READY, READY, READY, low=1, now_s=0.0).next_state
    decision = decide(READY, READY, READY, low=1, state=state, now_s=60.0)
    assert decision.actions == (Stop("i1"), Stop("i2"))


def test_an_instance_that_is_not_ready_is_never_stopped() -> None:
    state = decide(STARTING, now_s=0.0).next_state
    assert decide(STARTING, state=state, now_s=1000.0).actions == ()
    assert decide(READY, state=state, now_s=1000.0).actions == (Stop("i0"),)


def test_a_lasting_surplus_is_stopped_down_to_the_most_that_was_needed() -> None:
    phases = (READY, READY, READY, READY)
    state = decide(*phases, demand=4, now_s=0.0).next_state
    state = decide(*phases, demand=8, state=state, now_s=30.0).next_state
    decision = decide(*phases, demand=4, state=state, now_s=60.0)
    assert decision.actions == (Stop("i2"), Stop("i3"))
    # The window begins anew: what was needed before it no longer counts.
    later = decide(READY, READY, demand=4, state=decision.next_state, now_s=120.0)
    assert later.actions == (Stop("i1"),)


def test_a_lower_max_is_reached_at_once() -> None:
    assert decide(READY, READY, READY, demand=50, high=1).actions == (Stop("i1"), Stop("i2"))


def test_no_start_before_the_backoff_is_over_and_then_one_at_a_time() -> None:
    state = ScaleState(backoff=after_failure(Backoff(), "broke", 10.0))
    waiting = decide(demand=50, state=state, now_s=10.4)
    assert (waiting.actions, waiting.due_s) == ((), 10.5)
    assert "broke" in waiting.reason
    assert decide(demand=50, state=state, now_s=10.5).actions == (Start(1),)
    assert decide(READY, demand=50, state=state, now_s=10.5).actions == (Start(1),)


def test_a_clock_that_goes_back_stops_nothing() -> None:
    state = decide(READY, now_s=1000.0).next_state
    assert decide(READY, state=state, now_s=0.0).actions == ()


def test_the_smallest_capacity_is_counted_on() -> None:
    instances = (InstanceView("a", READY, 8), InstanceView("b", READY, 2))
    observed = Observed(5, 0, instances)
    decision = decide_instances(ScaleState(), observed, ScaleSpec(0, 9), 0.0)
    assert decision.actions == (Start(1),)
    busy = decide_instances(ScaleState(), replace(observed, running=4), ScaleSpec(0, 9), 0.0)
    assert busy.actions == (Start(3),)
