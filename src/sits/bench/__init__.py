"""Benchmarks: the numbers that the platform is known by, each beside a baseline of the same run.

    _interface  what a benchmark declares and gives back: figures, and samples in pairs
    _units      a thousand units on one platform, one on another
    _platform   a platform of its own for a benchmark, in a temporary home
    _stats      medians and their intervals, pure
    _result     samples into the one JSON object that is printed
    _compare    what got worse since the last result, pure
    _run        the benchmarks that there are
    _machine, _errors       what their names say

To add one: a class as `Bench` says, in a module of its own, and its name in `_run.BENCHES`.
"""

from sits.bench._compare import Worse, compare
from sits.bench._errors import BenchError
from sits.bench._interface import Bench, Figure, Measured, Options, Samples, Tell
from sits.bench._machine import same_machine
from sits.bench._peer_places import LLAMA_CPP_PYTHON, LLAMA_SERVER, PEERS, XLLAMACPP, Peer
from sits.bench._peer_places import MARKER as PEER_MARKER
from sits.bench._result import Ratio, Result, make_result
from sits.bench._run import BENCHES, run_bench
from sits.bench._stats import Median, median_of, ratio_of

__all__ = [
    "BENCHES",
    "LLAMA_CPP_PYTHON",
    "LLAMA_SERVER",
    "PEERS",
    "PEER_MARKER",
    "XLLAMACPP",
    "Bench",
    "BenchError",
    "Figure",
    "Measured",
    "Median",
    "Options",
    "Peer",
    "Ratio",
    "Result",
    "Samples",
    "Tell",
    "Worse",
    "compare",
    "make_result",
    "median_of",
    "ratio_of",
    "run_bench",
    "same_machine",
]
