"""How many requests a step takes together, from the time that it may take.

A larger batch makes more of each step, and each step longer. From the arrival rate and what a
step takes, a lower bound follows; above that, the largest batch is chosen of which the predicted
P99 still meets the target. Where not even the lower bound does, it is taken all the same: a
smaller one could not keep up.
"""

import math
from collections.abc import Callable

_BUSY = 0.8
_SPREAD = 0.3
_P99 = 0.99


def least_batch(rate_per_s: float, latency_ms: float) -> int:
    """Return the lower bound of the batch size.

    Args:
        rate_per_s: requests that arrive each second.
        latency_ms: what one takes alone.
    """
    load = rate_per_s * latency_ms / 1000
    if load > _BUSY:
        return 1
    return max(1, math.floor(math.sqrt(2 * rate_per_s * _SPREAD**2 / (1 - load))))


def predict_p99_ms(batch: int, rate_per_s: float, latency_ms: Callable[[int], float]) -> float:
    """Return what 99 of 100 requests take at most.

    One that arrives while a step runs waits for its end; how likely that is, is the load.
    """
    step_ms = latency_ms(batch)
    load = min(1.0, rate_per_s * step_ms / 1000 / batch)
    return step_ms * (1 + _P99 * load)


def choose_batch(
    rate_per_s: float, target_ms: float, latency_ms: Callable[[int], float], most: int
) -> int:
    """Return the batch size, from 1 to `most`.

    Args:
        rate_per_s: requests that arrive each second.
        target_ms: the objective's P99.
        latency_ms: what a step takes with a batch of so many, as measured.
        most: how many there is room for.
    """
    chosen = min(most, least_batch(rate_per_s, latency_ms(1)))
    for batch in range(chosen + 1, most + 1):
        if predict_p99_ms(batch, rate_per_s, latency_ms) <= target_ms:
            chosen = batch
    return chosen
