"""How soon an answer begins where nothing of it runs, in turns with what else one could do.

Each tier and each length of prompt has a platform of its own, as the units of a tenant share
their worker. What counts as a start of a tier: `_starts`.
"""

import contextlib
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sits.bench._baselines import Baseline, run_baselines
from sits.bench._errors import BenchError
from sits.bench._interface import Figure, Measured, Options, Samples, Tell
from sits.bench._peer_places import LLAMA_SERVER
from sits.bench._peers import missing_words
from sits.bench._platform import engine_words, need_engine, run_platform
from sits.bench._starts import (
    NEW_WORDS,
    PREFIX_WORDS,
    SHORT_SYSTEM,
    SHORT_WORDS,
    StartCase,
    measure_round,
    peers_of,
    ratio_to_fastest,
)
from sits.bench._stats import p99_of
from sits.bench._texts import draw_words
from sits.bench._units import MODEL

_RATIO = "warm_320_ratio"
_HOT = "warm_320"  # the case in which a request follows each start


@dataclass(frozen=True)
class _Sizes:
    """How often each thing is measured: `starts` of each case in each round."""

    rounds: int
    starts: int
    few_baselines: bool


_QUICK = _Sizes(rounds=3, starts=2, few_baselines=True)
_WHOLE = _Sizes(rounds=10, starts=5, few_baselines=False)


class ColdStartBench:
    """See the module."""

    name = "cold-start"
    kind = "measurement"
    meaning = "a first answer where nothing runs, beside peers that start or wake for it"
    figures = (
        Figure("warm_20_ms_p50", "prompt of 20 tokens, no worker", slack=0.2, floor=3.0),
        Figure("warm_20_ms_p99", "the slowest of these", slack=0.5, floor=10.0),
        Figure("warm_320_ms_p50", "300 known + 20 new tokens", target=120.0, slack=0.2, floor=3.0),
        Figure("warm_320_ms_p99", "the slowest of these", slack=0.5, floor=10.0),
        Figure("cool_20_ms_p50", "20 tokens, no host either", slack=0.2, floor=5.0),
        Figure("cool_320_ms_p50", "300 + 20, no host either", target=160.0, slack=0.2, floor=5.0),
        Figure("hot_320_ms_p50", "300 + 20, a worker is there", slack=0.2, floor=3.0),
        Figure(
            _RATIO,
            "the fastest peer's time for 320 tokens, over ours",
            target=4.0,
            slack=0.2,
            higher_is_better=True,
            ratio=True,
        ),
    )

    def run(self, options: Options, tell: Tell) -> Measured:
        """See `Bench.run`."""
        need_engine(self.name)
        sizes = _QUICK if options.quick else _WHOLE
        dice = random.Random(options.seed)  # noqa: S311 - draws words and an order, no secret
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        with _run_cases(options.models_dir, dice, tell) as cases:
            file = cases["warm_20"].platform.model_file(MODEL)
            with run_baselines(file.path, tell, few=sizes.few_baselines) as baselines:
                theirs = _measure(cases, baselines, sizes, dice, tell)
        busy = (time.process_time() - began_cpu_s) / (time.perf_counter() - began_s)
        setting = {
            "model": MODEL,
            "representation": file.representation,
            "engine": engine_words(),
            "prompt_tokens": {case.name: case.prompt_tokens for case in cases.values()},
        }
        # Against the others alone, which are slower, the ratio would flatter.
        left_out = {} if LLAMA_SERVER.find() else {_RATIO: missing_words(LLAMA_SERVER)}
        proof = {name: case.proof for name, case in cases.items()}
        return Measured(_samples(cases, theirs), setting, busy, proof, left_out)


@contextmanager
def _run_cases(models_dir: str, dice: random.Random, tell: Tell) -> Iterator[dict[str, StartCase]]:
    """Run a platform for each case, with its unit, until the block ends."""
    long_system = draw_words(dice, PREFIX_WORDS)
    cases = {}
    with contextlib.ExitStack() as stack:
        for tier in ("warm", "cool"):
            for tokens, system, words in (
                (20, SHORT_SYSTEM, SHORT_WORDS),
                (320, long_system, NEW_WORDS),
            ):
                name = f"{tier}_{tokens}"
                tell(f"a platform for {name}")
                platform = stack.enter_context(run_platform(models_dir))
                case = StartCase(name, tier, system, words, platform, dice, name == _HOT)
                case.deploy(MODEL)
                cases[name] = case
        for case in cases.values():
            case.wait_until_gone()
        yield cases


_Peers = dict[str, list[dict[str, float]]]
"""Of each length of prompt and each round, the milliseconds of each baseline."""


def _measure(
    cases: Mapping[str, StartCase],
    baselines: Mapping[str, Baseline],
    sizes: _Sizes,
    dice: random.Random,
    tell: Tell,
) -> _Peers:
    theirs: _Peers = {"20": [], "320": []}
    for number in range(sizes.rounds):
        tell(f"round {number + 1} of {sizes.rounds}")
        measure_round(cases.values(), sizes.starts, dice)
        for tokens, found in theirs.items():
            messages = cases[f"warm_{tokens}"].peer_messages()
            found.append({name: measure(messages) for name, measure in baselines.items()})
    return theirs


def _samples(cases: Mapping[str, StartCase], theirs: _Peers) -> dict[str, Samples]:
    samples = {}
    for name, case in cases.items():
        peers = peers_of(theirs[name.partition("_")[2]])
        samples[f"{name}_ms_p50"] = Samples(case.all_ms, peers=peers)
        if case.tier == "warm":
            samples[f"{name}_ms_p99"] = Samples((p99_of(case.all_ms),))
    if not cases[_HOT].hot_ms:
        raise BenchError("no request just after a start met its worker; expected tier 'hot'")
    samples["hot_320_ms_p50"] = Samples(tuple(cases[_HOT].hot_ms))
    samples[_RATIO] = ratio_to_fastest(cases["warm_320"].starts_ms, theirs["320"])
    return samples
