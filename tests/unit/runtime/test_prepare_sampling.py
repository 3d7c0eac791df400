"""Timing a model that takes too long to be timed in full."""

import pytest

from sits.runtime.prepare._sampling import time_prompt, time_steps


class Work:
    """Takes what it is told, on a clock of its own."""

    def __init__(self, *takes_s: float) -> None:
        self.takes_s = list(takes_s)
        self.now_s = 100.0
        self.done: list[tuple[int, ...]] = []

    def run(self, *given: int) -> None:
        self.now_s += self.takes_s[len(self.done)]
        self.done.append(given)

    def clock(self) -> float:
        return self.now_s


def test_a_small_model_is_timed_in_full() -> None:
    work = Work(0.5, 0.25, 0.125)
    assert time_prompt([64, 64, 22], work.run, work.clock) == (0.875, True)
    assert work.done == [(0, 64), (64, 64), (128, 22)]


def test_of_a_large_one_the_rest_of_a_prompt_is_reckoned_by_its_tokens() -> None:
    work = Work(1.0, 3.0, 99.0)
    # 4 s for 128 of 300 tokens.
    took_s, more = time_prompt([64, 64, 172], work.run, work.clock)
    assert took_s == pytest.approx(4.0 * 300 / 128)
    assert (more, len(work.done)) == (False, 2)


def test_the_fastest_step_counts_and_the_first_does_not() -> None:
    work = Work(0.1, 0.4, 0.3, 0.5)
    assert time_steps(3, work.run, work.clock) == pytest.approx(0.3)
    assert work.done == [(0,), (1,), (2,), (3,)]


def test_steps_end_when_they_took_long_enough() -> None:
    work = Work(9.0, 1.5, 1.0, 0.1)
    assert time_steps(3, work.run, work.clock) == pytest.approx(1.0)
    assert len(work.done) == 3
