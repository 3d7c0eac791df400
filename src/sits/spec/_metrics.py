"""What triggers and objectives may measure: every metric's name, and what kind it is.

A value is held against a metric in its base unit: seconds, a share from 0 to 1, bytes, a rate a
second, a count.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sits.spec._quantity import Count, Quantity, Rate, Share, Size, Time
from sits.spec._words import nearest


@dataclass(frozen=True)
class Metric:
    """One metric, or with `NN` in its name one for each percentile.

    Attributes:
        name: how triggers write it.
        kind: what it is compared with.
        example: such a quantity.
        meaning: what it measures, for the reference.
    """

    name: str
    kind: type[Quantity]
    example: str
    meaning: str


_TIMES = {
    "latency": "a whole answer, from the request's arrival to its last token",
    "ttft": "the first token, from the request's arrival",
    "itl": "the time between two tokens of an answer",
}

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *(
            Metric(f"{name}_pNN", Time, "800ms", f"{meaning}: a percentile, such as {name}_p95")
            for name, meaning in _TIMES.items()
        ),
        *(
            Metric(f"{name}_mean", Time, "800ms", f"{meaning}: the mean")
            for name, meaning in _TIMES.items()
        ),
        Metric("requests_per_s", Rate, "50/s", "requests that arrive"),
        Metric("tokens_per_s", Rate, "1200/s", "tokens that all instances make together"),
        Metric("queue_depth", Count, "10", "requests that wait for an instance"),
        Metric("in_flight", Count, "32", "requests that are being answered"),
        Metric("gpu_util", Share, "85%", "use of the accelerators"),
        Metric("cpu_util", Share, "85%", "use of the processor cores that the unit may have"),
        Metric("kv_util", Share, "90%", "use of the memory for cached tokens"),
        Metric("cache_hit_rate", Share, "50%", "prompt tokens that were found in the cache"),
        Metric("error_rate", Share, "1%", "requests that failed"),
        Metric("memory", Size, "8GiB", "memory of the unit's processes"),
        Metric("gpu_memory", Size, "16GiB", "memory of the accelerators in use"),
    )
}

# 1 to 99, or with one decimal; p95.0 would be a second name for p95.
_PERCENTILE = re.compile(r"(?P<stem>[a-z]+)_p(?P<number>[1-9][0-9]?(\.[1-9])?)", re.ASCII)


def find_metric(name: str) -> Metric | None:
    """Return the metric that a name is of: `latency_p99.9` is one of `latency_pNN`."""
    found = _PERCENTILE.fullmatch(name)
    return METRICS.get(f"{found['stem']}_pNN" if found else name if "NN" not in name else "")


def nearest_metric(name: str) -> str | None:
    """Return the name of the metric that was probably meant, if one is like it."""
    if name in _TIMES:
        return f"{name}_p95"
    turned = re.fullmatch(r"p(\d+)_([a-z]+)", name)
    if turned and turned[2] in _TIMES:
        name = f"{turned[2]}_p{turned[1]}"
    known = [metric for metric in METRICS if "NN" not in metric]
    common = [f"{stem}_p{number}" for stem in _TIMES for number in (95, 50, 90, 99)]
    return nearest(name, [*common, *known])
