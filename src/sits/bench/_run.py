"""The benchmarks that there are, and how one is run."""

from sits.bench._cold_start import ColdStartBench
from sits.bench._errors import BenchError
from sits.bench._interface import Bench, Options, Tell
from sits.bench._kv_pool import KvPoolBench
from sits.bench._large_model import LargeModelBench
from sits.bench._machine import describe_machine, pace_ms
from sits.bench._result import Result, make_result
from sits.bench._stall import StallBench
from sits.bench._throughput import ThroughputBench
from sits.bench._units import UnitsBench

_ALL: tuple[Bench, ...] = (
    UnitsBench(),
    ColdStartBench(),
    ThroughputBench(),
    KvPoolBench(),
    StallBench(),
    LargeModelBench(),
)
BENCHES: dict[str, Bench] = {bench.name: bench for bench in _ALL}


def run_bench(name: str, options: Options, tell: Tell) -> Result:
    """Run one benchmark.

    Args:
        name: of one of `BENCHES`.
        options: how.
        tell: shows how far it is.

    Raises:
        BenchError: there is none of that name, or it gave no result.
    """
    bench = BENCHES.get(name)
    if bench is None:
        raise BenchError(f"there is no benchmark '{name}'; there are {', '.join(sorted(BENCHES))}")
    machine = describe_machine()
    tell(f"seed {options.seed}")
    before_ms = pace_ms()
    measured = bench.run(options, tell)
    machine["pace_ms"] = round((before_ms + pace_ms()) / 2, 3)
    return make_result(bench, options, measured, machine)
