"""A benchmark's result: one JSON object, made of its samples."""

from dataclasses import dataclass, field

import msgspec

from sits.bench._errors import BenchError
from sits.bench._interface import Bench, Figure, Measured, Options, Samples
from sits.bench._stats import median_of, ratio_of


class Ratio(msgspec.Struct, frozen=True):
    """How much larger a figure is than its baseline: the pairs' median, and its interval."""

    median: float
    low: float
    high: float
    pairs: int


class Result(msgspec.Struct, frozen=True):
    """What `sits bench NAME -o json` prints.

    Attributes:
        kind: `measurement`, or `simulation`.
        figures: the medians.
        intervals: between which two numbers each lies, with 95 %.
        baseline: the same figures of what it is compared with.
        ratio: of figure to baseline; a figure without a baseline has none.
        targets: what figures are to be below of, or at least where higher is better.
        setting: what the numbers hold for.
        load_cpu_share: of one core, that the load generator itself used.
        higher_is_better: the figures of which that is so.
        peers: the same figures of others, by figure and name.
        proof: what makes the numbers mean what they say.
        left_out: figures that could not be measured, and why.
    """

    bench: str
    kind: str
    quick: bool
    seed: int
    figures: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    baseline: dict[str, float]
    ratio: dict[str, Ratio]
    targets: dict[str, float]
    setting: dict[str, object]
    load_cpu_share: float
    machine: dict[str, object]
    higher_is_better: tuple[str, ...] = ()
    peers: dict[str, dict[str, float]] = {}
    proof: dict[str, object] = {}
    left_out: dict[str, str] = {}

    def missed(self) -> list[str]:
        """Return the figures that do not reach their targets."""
        return [name for name in self.targets if not self._reaches(name)]

    def target_words(self, figure: str) -> str:
        """Return the target of a figure that has one, such as `below 300` or `at least 4`."""
        least = "at least" if figure in self.higher_is_better else "below"
        return f"{least} {self.targets[figure]:g}"

    def _reaches(self, figure: str) -> bool:
        value, target = self.figures[figure], self.targets[figure]
        return value >= target if figure in self.higher_is_better else value < target


def make_result(
    bench: Bench, options: Options, measured: Measured, machine: dict[str, object]
) -> Result:
    """Return the result of a benchmark that has run.

    Raises:
        BenchError: it gave no samples of a figure, and did not say why.
    """
    given = _given(bench, measured)
    numbers = _Numbers()
    for figure in given:
        numbers.add(figure.name, measured.samples[figure.name])
    return Result(
        bench=bench.name,
        kind=bench.kind,
        quick=options.quick,
        seed=options.seed,
        figures=numbers.figures,
        intervals=numbers.intervals,
        baseline=numbers.baseline,
        ratio=numbers.ratio,
        targets={each.name: each.target for each in given if each.target is not None},
        setting=dict(measured.setting),
        load_cpu_share=_round(measured.load_cpu_share),
        machine=machine,
        higher_is_better=tuple(each.name for each in given if each.higher_is_better),
        peers=numbers.peers,
        proof=dict(measured.proof),
        left_out=dict(measured.left_out),
    )


def _given(bench: Bench, measured: Measured) -> list[Figure]:
    """Return the figures that were measured."""
    given = [figure for figure in bench.figures if figure.name not in measured.left_out]
    forgotten = [figure.name for figure in given if figure.name not in measured.samples]
    if forgotten:
        raise BenchError(
            f"'{bench.name}' gave no samples of {', '.join(forgotten)}; expected them, or why not"
        )
    return given


@dataclass
class _Numbers:
    """What samples come to."""

    figures: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)
    ratio: dict[str, Ratio] = field(default_factory=dict)
    peers: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, name: str, samples: Samples) -> None:
        own = median_of(samples.own)
        self.figures[name] = _round(own.value)
        self.intervals[name] = (_round(own.low), _round(own.high))
        if samples.peers:
            self.peers[name] = {
                peer: _round(median_of(theirs).value) for peer, theirs in samples.peers.items()
            }
        if not samples.baseline:
            return
        self.baseline[name] = _round(median_of(samples.baseline).value)
        ratio = ratio_of(samples.own, samples.baseline)
        if ratio is not None:
            bounds = _round(ratio.low), _round(ratio.high)
            self.ratio[name] = Ratio(_round(ratio.value), *bounds, ratio.count)


def _round(value: float) -> float:
    """Keep four digits: no measurement here is better than that."""
    return float(f"{value:.4g}")
