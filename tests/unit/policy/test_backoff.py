"""When to try again."""

import pytest

from sits.policy import Backoff, after_failure, after_health, backoff_due_s, may_try
from sits.policy import is_crash_looping as looping


def fail(times: int, now_s: float = 0.0) -> Backoff:
    backoff = Backoff()
    for _ in range(times):
        backoff = after_failure(backoff, "broke", now_s)
    return backoff


@pytest.mark.parametrize(
    ("failures", "delay_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 30.0), (50, 30.0)]
)
def test_each_failure_doubles_the_wait_until_a_crash_loop_waits_the_most(
    failures: int, delay_s: float
) -> None:
    backoff = fail(failures, now_s=10.0)
    assert not may_try(backoff, 10.0 + delay_s - 0.01)
    assert may_try(backoff, 10.0 + delay_s)
    assert backoff_due_s(backoff, 10.0) == 10.0 + delay_s


def test_a_crash_loop_refuses_only_until_its_next_try_is_due() -> None:
    assert not looping(fail(4), 0.0)
    assert looping(fail(5), 29.9)
    assert not looping(fail(5), 30.0)
    assert fail(5).reason == "broke"


def test_a_minute_of_health_forgets_failures_and_less_does_not() -> None:
    backoff = after_health(fail(3), healthy=True, now_s=100.0)
    assert backoff_due_s(backoff, 100.0) == 160.0
    assert after_health(backoff, healthy=True, now_s=159.9).failures == 3
    assert after_health(backoff, healthy=True, now_s=160.0) == Backoff()


def test_health_that_is_interrupted_begins_anew() -> None:
    backoff = after_health(fail(3), healthy=True, now_s=100.0)
    backoff = after_health(backoff, healthy=False, now_s=150.0)
    backoff = after_health(backoff, healthy=True, now_s=151.0)
    assert after_health(backoff, healthy=True, now_s=165.0).failures == 3
