"""The batch size: the workload model's reference rows, and what any choice must hold to."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sits.policy import choose_batch, least_batch, predict_p99_ms


def chat_ms(batch: int) -> float:
    return 85 + 15.0 * batch


def image_ms(batch: int) -> float:
    return 100 + 215.0 * batch


def test_reference_rows() -> None:
    assert choose_batch(1000 / 850, 120, chat_ms, 32) == 1
    assert choose_batch(1000 / 3200, 2000, image_ms, 32) == 8


@pytest.mark.parametrize(
    ("rate", "latency_ms", "expected"),
    [
        # floor(sqrt(2 * rate * 0.09 / (1 - rate * latency / 1000))), by hand
        (100.0, 5.0, 6),
        (100.0, 7.9, 9),
        (1.0, 100.0, 1),
        (100.0, 8.1, 1),
        (0.0, 100.0, 1),
    ],
)
def test_the_lower_bound(rate: float, latency_ms: float, expected: int) -> None:
    assert least_batch(rate, latency_ms) == expected


@given(
    st.floats(0, 1000),
    st.floats(1, 5000),
    st.floats(0, 500),
    st.floats(0, 500),
    st.integers(1, 64),
)
def test_the_largest_that_meets_the_target(
    rate: float, target: float, fixed: float, each: float, most: int
) -> None:
    def latency_ms(batch: int) -> float:
        return fixed + each * batch

    chosen = choose_batch(rate, target, latency_ms, most)
    assert 1 <= chosen <= most
    meets = [b for b in range(1, most + 1) if predict_p99_ms(b, rate, latency_ms) <= target]
    assert chosen == max([min(most, least_batch(rate, latency_ms(1))), *meets])
    assert math.isfinite(predict_p99_ms(chosen, rate, latency_ms))
