"""Results of a benchmark that was never run."""

from collections.abc import Mapping
from typing import Any

from sits.bench import Figure, Measured, Options, Result, Samples, Tell, make_result

MACHINE: dict[str, object] = {"cpu": "one", "cores": 2, "memory_gb": 8, "system": "Linux 6"}


class FakeBench:
    """Gives the samples that it was made with."""

    name = "fake"
    kind = "measurement"
    meaning = "nothing"

    def __init__(self, samples: dict[str, Samples], **figure: Any) -> None:
        self.figures = tuple(Figure(name, "a figure", **figure) for name in samples)
        self._samples = samples
        self.left_out: dict[str, str] = {}

    def run(self, options: Options, tell: Tell) -> Measured:
        tell("measuring")
        return Measured(self._samples, {"units": 3}, 0.5, {"idle": 3}, self.left_out)


def make_fake(
    own: tuple[float, ...],
    baseline: tuple[float, ...] = (),
    machine: dict[str, object] = MACHINE,
    *,
    peers: Mapping[str, tuple[float, ...]] | None = None,
    **figure: Any,
) -> tuple[FakeBench, Result]:
    """Return a benchmark of one figure, `list_ms`, and its result."""
    bench = FakeBench({"list_ms": Samples(own, baseline, peers or {})}, **figure)
    options = Options(quick=True, seed=7)
    return bench, make_result(bench, options, bench.run(options, lambda _: None), machine)
