"""What got worse since the last results. Pure.

A figure got worse when its whole interval lies beyond the whole former one, by more than what is
noise for it: a median alone moves from run to run. Numbers are compared between machines of one
kind only, and what a machine was slower by (its pace) is forgiven; ratios, also those to the
baseline of the same run, are compared always.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sits.bench._interface import Figure
from sits.bench._machine import same_machine, slowdown
from sits.bench._result import Result


@dataclass(frozen=True)
class Worse:
    """One figure that got worse.

    Attributes:
        what: its name, or `NAME against its baseline`.
        before: the median of the last result.
        now: of this one.
    """

    bench: str
    what: str
    before: float
    now: float

    def __str__(self) -> str:
        """Say it to a person."""
        return f"{self.bench}: {self.what} was {self.before:g} and is {self.now:g}"


def compare(figures: Iterable[Figure], former: Result, latest: Result) -> list[Worse]:
    """Return what got worse from one result of a benchmark to the next."""
    return list(_compare(figures, former, latest))


def _compare(figures: Iterable[Figure], former: Result, latest: Result) -> Iterator[Worse]:
    same = same_machine(former.machine, latest.machine) and former.setting == latest.setting
    slower = slowdown(former.machine, latest.machine)
    for figure in figures:
        name = figure.name
        if name not in former.figures or name not in latest.figures:
            continue
        if same or figure.ratio:
            before, now = former.figures[name], latest.figures[name]
            share = _forgiven(figure, slower)
            low, high = (bound * share for bound in latest.intervals[name])
            if _is_worse(figure, former.intervals[name], (low, high), (before, now * share)):
                yield Worse(latest.bench, name, before, now)
                continue
        if name in former.ratio and name in latest.ratio:
            old, new = former.ratio[name], latest.ratio[name]
            # What is noise in the figure is noise in the ratio.
            floor = figure.floor / latest.baseline[name] if latest.baseline[name] > 0 else 0.0
            as_ratio = replace(figure, floor=floor)
            medians = old.median, new.median
            if _is_worse(as_ratio, (old.low, old.high), (new.low, new.high), medians):
                yield Worse(latest.bench, f"{name} against its baseline", *medians)


def _forgiven(figure: Figure, slower: float) -> float:
    """Return what a figure is multiplied by where the machine was slower than before."""
    if figure.ratio:
        return 1.0
    return slower if figure.higher_is_better else 1 / slower


def _is_worse(
    figure: Figure,
    former: tuple[float, float],
    latest: tuple[float, float],
    medians: tuple[float, float],
) -> bool:
    before, now = medians
    noise = max(figure.slack * before, figure.floor)
    if figure.higher_is_better:
        return latest[1] < former[0] and before - now > noise
    return latest[0] > former[1] and now - before > noise
