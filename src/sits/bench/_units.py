"""A thousand units on one platform, beside another platform that has one.

What a person and a caller notice of units that they do not use: how long `sits iu list` takes,
what control costs while nothing happens, how soon a hot unit answers, how long a deploy takes.
Both platforms run at once, on the same models, and are measured in turns; which is first in a
pair is drawn.
"""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sits.bench._errors import BenchError
from sits.bench._interface import Figure, Measured, Options, Samples, Tell
from sits.bench._platform import FAKE_ENGINE, BenchPlatform, engine_setting, run_platform
from sits.bench._processes import cpu_s, memory_mb

UNITS = 1000
MODEL = "builtin://smollm2-135m-instruct"
_DEPLOYERS = 4
_READY_S = 240.0
_POLL_S = 0.5
_QUIET_S = 2.0
_WORDS = "What is the capital of France?"


@dataclass(frozen=True)
class _Sizes:
    """How often each thing is measured."""

    lists: int
    api_lists: int
    windows: int
    window_s: float
    requests: int
    deploys: int


_QUICK = _Sizes(lists=9, api_lists=9, windows=6, window_s=2.0, requests=40, deploys=20)
_WHOLE = _Sizes(lists=25, api_lists=50, windows=12, window_s=5.0, requests=250, deploys=100)


@dataclass
class _Pair:
    """Both platforms, and how much of the time this process itself worked.

    Attributes:
        many: has all the units.
        one: has one.
        unit: the unit of `many` that is asked.
    """

    many: BenchPlatform
    one: BenchPlatform
    unit: str
    dice: random.Random
    busy_s: float = 0.0
    took_s: float = field(default=1e-9)

    def measure(self, count: int, probe: Callable[[BenchPlatform, str], float]) -> Samples:
        """Measure both in turns, so often."""
        own: list[float] = []
        baseline: list[float] = []
        sides = [(self.many, self.unit, own), (self.one, unit_name(0), baseline)]
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        for _ in range(count):
            self.dice.shuffle(sides)
            for platform, unit, samples in sides:
                samples.append(probe(platform, unit))
        self.busy_s += time.process_time() - began_cpu_s
        self.took_s += time.perf_counter() - began_s
        return Samples(tuple(own), tuple(baseline))


class UnitsBench:
    """See the module."""

    name = "units"
    kind = "measurement"
    meaning = f"a platform with {UNITS} units, beside one with a single unit"
    figures = (
        Figure("list_ms", "`sits iu list`, from exec to exit", target=300.0, slack=0.2),
        Figure("list_api_ms", "all that the API says of all units", slack=0.4, floor=5.0),
        Figure("idle_cpu_share", "of a core, for control, at rest", target=0.01, floor=0.002),
        Figure("ttft_ms_p50", "a hot unit's first text", slack=0.2, floor=1.0),
        Figure("deploy_ms_p50", "a deploy over a former one", slack=0.4, floor=5.0),
        Figure("deploy_all_s", f"{UNITS} units deployed, until all are ready", slack=0.5),
        Figure("control_memory_mb", "resident memory of control", slack=0.1),
    )

    def run(self, options: Options, tell: Tell) -> Measured:
        """See `Bench.run`."""
        sizes = _QUICK if options.quick else _WHOLE
        dice = random.Random(options.seed)  # noqa: S311 - draws an order, no secret
        engine = engine_setting()
        if engine == FAKE_ENGINE:
            tell("the engine is not installed: a fake one answers, and times are none of a model")
        with run_platform(options.models_dir) as many, run_platform(options.models_dir) as one:
            deploy_all_s = _fill(many, one, tell)
            pair = _Pair(many, one, unit_name(dice.randrange(UNITS)), dice)
            samples = _measure(pair, sizes, tell)
        samples["deploy_all_s"] = Samples((deploy_all_s,))
        setting = {"units": UNITS, "model": MODEL, "engine": engine or "llama.cpp"}
        return Measured(samples, setting, pair.busy_s / pair.took_s)


def unit_name(number: int) -> str:
    """Return what a unit is called."""
    return f"unit-{number:04}"


def unit_spec(number: int, version: str = "first") -> dict[str, Any]:
    """Return a unit as it is deployed; another version is another revision of it."""
    return {
        "name": unit_name(number),
        "model": MODEL,
        "prompt": {"system": f"You are assistant {number:04}, {version}.", "template": "{{ q }}"},
        "scale": {"min_instances": 0, "max_instances": 2},
        "labels": {"number": str(number)},
    }


def _fill(many: BenchPlatform, one: BenchPlatform, tell: Tell) -> float:
    """Deploy all units, and return how long the many took."""
    one.request("POST", "/api/v1/units", unit_spec(0))
    _wait_until_ready(one, 1)
    tell(f"deploying {UNITS} units")
    began_s = time.perf_counter()
    with ThreadPoolExecutor(_DEPLOYERS) as deployers:
        specs = map(unit_spec, range(UNITS))
        for _ in deployers.map(lambda spec: many.request("POST", "/api/v1/units", spec), specs):
            pass
    _wait_until_ready(many, UNITS)
    return time.perf_counter() - began_s


def _wait_until_ready(platform: BenchPlatform, count: int) -> None:
    until_s = time.perf_counter() + _READY_S
    while True:
        units = platform.request("GET", "/api/v1/units")["units"]
        late = [unit for unit in units if unit["status"]["phase"] != "Ready"]
        if len(units) == count and not late:
            return
        if time.perf_counter() > until_s:
            words = late[0]["status"]["message"] if late else f"{len(units)} of {count} are there"
            raise BenchError(f"the units were not ready within {_READY_S:g} s: {words}")
        time.sleep(_POLL_S)


def _measure(pair: _Pair, sizes: _Sizes, tell: Tell) -> dict[str, Samples]:
    tell(f"at rest, for {sizes.windows * sizes.window_s:g} s")
    samples = {"idle_cpu_share": _measure_rest(pair, sizes)}
    tell("listing")
    samples["list_ms"] = pair.measure(sizes.lists, lambda it, _: it.command_ms("iu", "list"))
    samples["list_api_ms"] = pair.measure(sizes.api_lists, lambda it, _: _list_ms(it))
    tell("asking")
    for platform, unit in ((pair.many, pair.unit), (pair.one, unit_name(0))):
        platform.first_piece_ms(unit, _WORDS)  # from here on both are hot
    samples["ttft_ms_p50"] = pair.measure(
        sizes.requests, lambda it, unit: it.first_piece_ms(unit, _WORDS)
    )
    tell("deploying again")
    samples["deploy_ms_p50"] = pair.measure(sizes.deploys, _deployer())
    with _controls(pair) as (many, one):
        samples["control_memory_mb"] = Samples((memory_mb(many),), (memory_mb(one),))
    return samples


def _measure_rest(pair: _Pair, sizes: _Sizes) -> Samples:
    """Measure control's share of a core on both platforms, in the same windows of time."""
    time.sleep(_QUIET_S)
    own: list[float] = []
    baseline: list[float] = []
    with _controls(pair) as pids:
        for _ in range(sizes.windows):
            began_s, before = time.perf_counter(), [cpu_s(pid) for pid in pids]
            time.sleep(sizes.window_s)
            took_s = time.perf_counter() - began_s
            shares = [(cpu_s(pid) - at) / took_s for pid, at in zip(pids, before, strict=True)]
            own.append(shares[0])
            baseline.append(shares[1])
    return Samples(tuple(own), tuple(baseline))


@contextmanager
def _controls(pair: _Pair) -> Iterator[tuple[int, int]]:
    """Give both control processes, and make sure that none was another one meanwhile.

    Raises:
        BenchError: one ended.
    """
    before = pair.many.service_pid("control"), pair.one.service_pid("control")
    yield before
    if (pair.many.service_pid("control"), pair.one.service_pid("control")) != before:
        raise BenchError("control ended while it was measured; its log says why")


def _list_ms(platform: BenchPlatform) -> float:
    began_s = time.perf_counter()
    platform.http.get("/api/v1/units").raise_for_status()
    return (time.perf_counter() - began_s) * 1e3


def _deployer() -> Callable[[BenchPlatform, str], float]:
    """Return what deploys a new revision each time, and says how long that took."""
    versions = 0

    def deploy(platform: BenchPlatform, unit: str) -> float:
        nonlocal versions
        versions += 1
        spec = unit_spec(int(unit.removeprefix("unit-")), f"version {versions}")
        began_s = time.perf_counter()
        platform.request("POST", "/api/v1/units", spec)
        return (time.perf_counter() - began_s) * 1e3

    return deploy
