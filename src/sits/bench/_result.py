"""A benchmark's result: one JSON object, made of its samples."""

import msgspec

from sits.bench._interface import Bench, Figure, Measured, Options
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
        targets: what figures are to be below of.
        setting: what the numbers hold for.
        load_cpu_share: of one core, that the load generator itself used.
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

    def missed(self) -> list[str]:
        """Return the figures that do not reach their targets."""
        return [name for name, target in self.targets.items() if self.figures[name] >= target]


def make_result(
    bench: Bench, options: Options, measured: Measured, machine: dict[str, object]
) -> Result:
    """Return the result of a benchmark that has run."""
    figures: dict[str, float] = {}
    intervals: dict[str, tuple[float, float]] = {}
    baseline: dict[str, float] = {}
    ratios: dict[str, Ratio] = {}
    for figure in bench.figures:
        samples = measured.samples[figure.name]
        own = median_of(samples.own)
        figures[figure.name] = _round(own.value)
        intervals[figure.name] = (_round(own.low), _round(own.high))
        if not samples.baseline:
            continue
        baseline[figure.name] = _round(median_of(samples.baseline).value)
        ratio = ratio_of(samples.own, samples.baseline)
        if ratio is not None:
            ratios[figure.name] = Ratio(
                _round(ratio.value), _round(ratio.low), _round(ratio.high), ratio.count
            )
    return Result(
        bench=bench.name,
        kind=bench.kind,
        quick=options.quick,
        seed=options.seed,
        figures=figures,
        intervals=intervals,
        baseline=baseline,
        ratio=ratios,
        targets=_targets(bench.figures),
        setting=dict(measured.setting),
        load_cpu_share=_round(measured.load_cpu_share),
        machine=machine,
    )


def _targets(figures: tuple[Figure, ...]) -> dict[str, float]:
    return {figure.name: figure.target for figure in figures if figure.target is not None}


def _round(value: float) -> float:
    """Keep four digits: no measurement here is better than that."""
    return float(f"{value:.4g}")
