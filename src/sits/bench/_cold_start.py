"""How soon an answer begins where nothing of it runs, in turns with what else one could do.

Each tier and each length of prompt has a platform of its own, as the units of a tenant share
their worker. Before each start it is looked at that no process is there that the tier does
without, on the platform that is asked and on all others, and after it that the platform says the
same tier; a start that was of another is not counted. The clock runs from the last byte of the
request, over an open connection, to the first text that is not empty.
"""

import contextlib
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sits.bench._baselines import Baseline, run_baselines
from sits.bench._client import ask
from sits.bench._errors import BenchError
from sits.bench._interface import Figure, Measured, Options, Samples, Tell
from sits.bench._peer_places import LLAMA_SERVER
from sits.bench._peers import missing_words
from sits.bench._platform import BenchPlatform, Message, engine_words, need_engine, run_platform
from sits.bench._stats import best_of, p99_of
from sits.bench._texts import draw_words
from sits.bench._units import MODEL

UNIT = "cold"
_TOKENS = 4
_GONE_S = 30.0
_LOOK_S = 0.01
_RATIO = "warm_320_ratio"
# Short enough not to wait for; what is kept warm stays so for longer than a run takes.
_SCALE_WARM = {"idle": "100ms", "cool_after": "1h"}
_SCALE_COOL = {"idle": "100ms", "cool_after": "400ms"}
_GONE_AT = {"warm": ("worker",), "cool": ("worker", "template", "host")}
_PREFIX_WORDS, _NEW_WORDS = 295, 12  # a prompt of 301 + 20 tokens
_SHORT_SYSTEM, _SHORT_WORDS = "Be brief.", 3  # one of 20
_MOST_WRONG_SHARE = 0.2


@dataclass(frozen=True)
class _Sizes:
    """How often each thing is measured: `starts` of each case in each round."""

    rounds: int
    starts: int
    few_baselines: bool


_QUICK = _Sizes(rounds=3, starts=2, few_baselines=True)
_WHOLE = _Sizes(rounds=10, starts=5, few_baselines=False)


@dataclass
class _Case:
    """One tier and one length, on a platform of its own.

    Attributes:
        starts_ms: of each round.
        hot_ms: of requests just after a start, where they are measured.
        at_rest: starts before which no process was there that the tier does without.
        wrong: starts that the platform said to be of another tier.
    """

    name: str
    tier: str
    system: str
    words: int
    platform: BenchPlatform
    dice: random.Random
    starts_ms: list[list[float]] = field(default_factory=list)
    hot_ms: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    at_rest: int = 0
    wrong: int = 0

    def messages(self) -> list[Message]:
        """Return what is asked, which nobody has asked before; the system prompt is the unit's."""
        return [("user", draw_words(self.dice, self.words))]

    def peer_messages(self) -> list[Message]:
        """Return what a peer is asked for the same prompt."""
        return [("system", self.system), *self.messages()]

    def start_ms(self) -> float:
        """Return the milliseconds of a start of this tier.

        Raises:
            BenchError: too many starts are of another tier.
        """
        while True:
            took_ms, tier = self._start()
            if tier == self.tier:
                return took_ms
            self.wrong += 1
            if self.wrong > 1 + _MOST_WRONG_SHARE * self.at_rest:
                raise BenchError(
                    f"{self.wrong} of {self.at_rest} starts for {self.name} were not {self.tier}, "
                    f"the last one '{tier}'; expected a start with nothing of it there"
                )

    def _start(self) -> tuple[float, str]:
        self.wait_until_gone()
        self.at_rest += 1
        took_ms, tier = self._ask()
        if self.hot_wanted:
            hot_ms, hot_tier = self._ask()
            if hot_tier == "hot":
                self.hot_ms.append(hot_ms)
        self.wait_until_gone()
        return took_ms, tier

    @property
    def hot_wanted(self) -> bool:
        """Whether a request follows each start, for the worker that is there now."""
        return self.name == "warm_320"

    def _ask(self) -> tuple[float, str]:
        answer = ask(self.platform.ask(UNIT, self.messages(), _TOKENS))
        took_ms = answer.first_piece_ms
        self.prompt_tokens = int(answer.usage["prompt_tokens"])
        return took_ms, answer.headers.get("x-sits-tier", "none")

    def wait_until_gone(self) -> None:
        """Wait until no process is there that the tier does without.

        Raises:
            BenchError: one is there for too long.
        """
        until_s = time.perf_counter() + _GONE_S
        while there := [name for name in _GONE_AT[self.tier] if self._count(name)]:
            if time.perf_counter() > until_s:
                raise BenchError(
                    f"{self.name}: {' and '.join(there)} did not end within {_GONE_S:g} s without "
                    "a request; expected the unit's `scale` to be acted on"
                )
            time.sleep(_LOOK_S)

    def _count(self, process: str) -> int:
        return self.platform.count_processes(process)


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
        return Measured(_samples(cases, theirs), setting, busy, _proof(cases), left_out)


@contextmanager
def _run_cases(models_dir: str, dice: random.Random, tell: Tell) -> Iterator[dict[str, _Case]]:
    """Run a platform for each case, with its unit, until the block ends."""
    long_system = draw_words(dice, _PREFIX_WORDS)
    cases = {}
    with contextlib.ExitStack() as stack:
        for tier, scale in (("warm", _SCALE_WARM), ("cool", _SCALE_COOL)):
            for tokens, system, words in (
                (20, _SHORT_SYSTEM, _SHORT_WORDS),
                (320, long_system, _NEW_WORDS),
            ):
                name = f"{tier}_{tokens}"
                tell(f"a platform for {name}")
                platform = stack.enter_context(run_platform(models_dir))
                spec = {"name": UNIT, "model": MODEL, "prompt": {"system": system}, "scale": scale}
                platform.deploy(spec)
                cases[name] = _Case(name, tier, system, words, platform, dice)
        for case in cases.values():
            case.wait_until_gone()
        yield cases


_Peers = dict[str, list[dict[str, float]]]
"""Of each length of prompt and each round, the milliseconds of each baseline."""


def _measure(
    cases: Mapping[str, _Case],
    baselines: Mapping[str, Baseline],
    sizes: _Sizes,
    dice: random.Random,
    tell: Tell,
) -> _Peers:
    theirs: _Peers = {"20": [], "320": []}
    for number in range(sizes.rounds):
        tell(f"round {number + 1} of {sizes.rounds}")
        for case in cases.values():
            case.starts_ms.append([])
        order = [case for case in cases.values() for _ in range(sizes.starts)]
        dice.shuffle(order)
        for case in order:
            case.starts_ms[-1].append(case.start_ms())
        for tokens, found in theirs.items():
            messages = cases[f"warm_{tokens}"].peer_messages()
            found.append({name: measure(messages) for name, measure in baselines.items()})
    return theirs


def _samples(cases: Mapping[str, _Case], theirs: _Peers) -> dict[str, Samples]:
    samples = {}
    for name, case in cases.items():
        own = [took_ms for round_ms in case.starts_ms for took_ms in round_ms]
        found = theirs[name.partition("_")[2]]
        peers = {peer: tuple(each[peer] for each in found) for peer in found[0]}
        samples[f"{name}_ms_p50"] = Samples(tuple(own), peers=peers)
        if case.tier == "warm":
            samples[f"{name}_ms_p99"] = Samples((p99_of(own),))
    if not cases["warm_320"].hot_ms:
        raise BenchError("no request just after a start met its worker; expected tier 'hot'")
    samples["hot_320_ms_p50"] = Samples(tuple(cases["warm_320"].hot_ms))
    samples[_RATIO] = _ratio(cases["warm_320"].starts_ms, theirs["320"])
    return samples


def _ratio(own: list[list[float]], theirs: list[dict[str, float]]) -> Samples:
    """Return, of each round, the peer that is the fastest of all rounds, over our median."""
    by_peer = {peer: [each[peer] for each in theirs] for peer in theirs[0]}
    fastest = by_peer[best_of(by_peer, higher_is_better=False)]
    ratios = [
        peer_ms / statistics.median(own_ms) for own_ms, peer_ms in zip(own, fastest, strict=True)
    ]
    return Samples(tuple(ratios))


def _proof(cases: Mapping[str, _Case]) -> dict[str, Any]:
    return {
        name: {
            "starts": sum(map(len, case.starts_ms)),
            "starts_without": {" and ".join(_GONE_AT[case.tier]): case.at_rest},
            "of_another_tier": case.wrong,
        }
        for name, case in cases.items()
    }
