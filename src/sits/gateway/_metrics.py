"""What has been asked of units here, for `GET /metrics`: counted for each unit, told by tenant.

Invariants: a label's value is a unit of the table, a tier or a class of status, never what a
caller chose; a unit that leaves the table takes its figures with it. Figures are plain numbers,
changed once for each request, at its end; what Prometheus wants is made of them when it asks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from sits.gateway._activator import UnitKey
from sits.gateway._exchange import Exchange
from sits.wire import Tier, UnitLoad

# From a hot start's first piece to the longest that a hold and a cold start take together.
_BOUNDS_S = (
    *(0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.16, 0.25),
    *(0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
_BOUND_TEXTS = (*map(str, _BOUNDS_S), "+Inf")
_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")


class _Waits:
    """How long first pieces took: a count for each bound, and the sum."""

    def __init__(self) -> None:
        self._counts = [0] * len(_BOUND_TEXTS)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        place = sum(seconds > bound for bound in _BOUNDS_S)
        self._counts[place] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound with how many were at most that."""
        return list(zip(_BOUND_TEXTS, accumulate(map(float, self._counts)), strict=True))


@dataclass(eq=False)
class _Figures:
    """One unit's."""

    requests: Counter[str] = field(default_factory=Counter)
    starts: Counter[Tier] = field(default_factory=Counter)
    waits: dict[Tier, _Waits] = field(default_factory=dict)
    broken: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def add(self, exchange: Exchange) -> None:
        self.requests[_CLASSES[exchange.outcome // 100 - 1]] += 1
        # An error that came after the headers: the status does not tell of it.
        self.broken += exchange.status == 200 and bool(exchange.error)
        if exchange.tier:
            tier = Tier(exchange.tier)
            if tier is not Tier.HOT:
                self.starts[tier] += 1
            if exchange.first_piece_s:
                wait_s = exchange.first_piece_s - exchange.started_s
                self.waits.setdefault(tier, _Waits()).add(wait_s)
        if exchange.usage is None:
            self.completion_tokens += exchange.tokens
        else:
            self.prompt_tokens += exchange.usage.prompt_tokens
            self.cached_tokens += exchange.usage.cached_tokens
            self.completion_tokens += exchange.usage.completion_tokens


class Metrics:
    """Counts requests as they end.

    Args:
        is_there: whether the table has a unit.
        loads: returns the requests of now.
    """

    def __init__(
        self, is_there: Callable[[UnitKey], bool], loads: Callable[[], Iterable[UnitLoad]]
    ) -> None:
        self._is_there = is_there
        self._loads = loads
        self._figures: dict[UnitKey, _Figures] = {}

    def note(self, exchange: Exchange) -> None:
        """Count a request that has ended, if it was for a unit that is still there."""
        key = (exchange.tenant, exchange.unit)
        if exchange.unit and self._is_there(key):
            self._figures.setdefault(key, _Figures()).add(exchange)

    def forget_gone(self) -> None:
        """Drop the figures of units that the table has no more."""
        for key in [key for key in self._figures if not self._is_there(key)]:
            del self._figures[key]

    def render(self, tenant: str, accept: str) -> tuple[bytes, str]:
        """Return a tenant's figures.

        Args:
            tenant: whose.
            accept: the caller's `Accept`, which decides between Prometheus's and OpenMetrics' text.

        Returns:
            The document, and its content type.
        """
        own = {unit: each for (of, unit), each in self._figures.items() if of == tenant}
        loads = [load for load in self._loads() if load.tenant == tenant]
        encode, content_type = choose_encoder(accept)
        return encode(_Families(own, loads)), content_type


class _Families(Collector):
    """One tenant's figures as Prometheus's families."""

    def __init__(self, figures: dict[str, _Figures], loads: list[UnitLoad]) -> None:
        self._figures = figures
        self._loads = loads

    def collect(self) -> Iterator[Metric]:
        yield self._by_label(
            ("sits_requests", "Requests that have ended", "status"), lambda unit: unit.requests
        )
        yield self._by_label(
            ("sits_starts", "Requests that waited for an instance that was not there", "tier"),
            lambda unit: unit.starts,
        )
        yield self._counter(
            "sits_broken_streams", "Streams that ended with an error", lambda unit: unit.broken
        )
        yield self._counter(
            "sits_prompt_tokens", "Tokens of prompts", lambda unit: unit.prompt_tokens
        )
        yield self._counter(
            "sits_cached_prompt_tokens",
            "Tokens of prompts that were found and not computed",
            lambda unit: unit.cached_tokens,
        )
        yield self._counter(
            "sits_completion_tokens", "Tokens that were made", lambda unit: unit.completion_tokens
        )
        yield self._first_pieces()
        yield self._gauge(
            "sits_waiting_requests", "Held, for an instance", lambda load: load.waiting
        )
        yield self._gauge("sits_running_requests", "On an instance", lambda load: load.running)

    def _by_label(
        self, about: tuple[str, str, str], read: Callable[[_Figures], Counter[str] | Counter[Tier]]
    ) -> Metric:
        name, meaning, label = about
        family = CounterMetricFamily(name, meaning, labels=("unit", label))
        for unit, figures in self._figures.items():
            for value, count in sorted(read(figures).items()):
                family.add_metric((unit, str(value)), count)
        return family

    def _counter(self, name: str, meaning: str, read: Callable[[_Figures], int]) -> Metric:
        family = CounterMetricFamily(name, meaning, labels=("unit",))
        for unit, figures in self._figures.items():
            family.add_metric((unit,), read(figures))
        return family

    def _first_pieces(self) -> Metric:
        family = HistogramMetricFamily(
            "sits_first_piece_seconds",
            "From a request's arrival to the first piece of its answer",
            labels=("unit", "tier"),
        )
        for unit, figures in self._figures.items():
            for tier, waits in sorted(figures.waits.items()):
                family.add_metric((unit, str(tier)), waits.buckets(), waits.sum_s)
        return family

    def _gauge(self, name: str, meaning: str, read: Callable[[UnitLoad], int]) -> Metric:
        family = GaugeMetricFamily(name, meaning, labels=("unit",))
        now = {load.unit: read(load) for load in self._loads}
        # A unit that had requests and has none is at zero, and not unknown.
        for unit in sorted({*self._figures, *now}):
            family.add_metric((unit,), now.get(unit, 0))
        return family
