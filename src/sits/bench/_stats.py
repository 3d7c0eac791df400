"""Medians, and how sure they are. Pure.

The interval is the one that needs no assumption about how samples are spread: a median lies
between the k-th smallest and the k-th largest of n samples with the probability that a binomial
of n fair coins does not fall outside.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_OUTSIDE = 0.05


@dataclass(frozen=True)
class Median:
    """A median, the 95 % interval around it, and of how many samples it is.

    With fewer than six samples the interval is all of them, which is less than 95 %.
    """

    value: float
    low: float
    high: float
    count: int


def median_of(samples: Sequence[float]) -> Median:
    """Return the median of one sample at least, with its interval."""
    ordered = sorted(samples)
    count = len(ordered)
    outermost = 0
    outside = 2 * 0.5**count
    while outside <= _OUTSIDE:
        outermost += 1
        outside += 2 * math.comb(count, outermost) * 0.5**count
    skipped = max(0, outermost - 1)
    return Median(statistics.median(ordered), ordered[skipped], ordered[count - 1 - skipped], count)


def ratio_of(own: Sequence[float], baseline: Sequence[float]) -> Median | None:
    """Return the median of the pairs' ratios; None where no baseline is above zero."""
    ratios = [one / other for one, other in zip(own, baseline, strict=True) if other > 0]
    return median_of(ratios) if ratios else None


def best_of(peers: Mapping[str, Sequence[float]], *, higher_is_better: bool) -> str:
    """Return which of some peers is the best by its median; at least one is given."""
    choose = max if higher_is_better else min
    return choose(peers, key=lambda name: statistics.median(peers[name]))


def p99_of(samples: Sequence[float]) -> float:
    """Return the least of at least one sample that 99 % of all are not above."""
    return sorted(samples)[math.ceil(0.99 * len(samples)) - 1]
