"""One pool of what was computed, beside a context of its own for each request.

Requests of a few units, each with a long prompt of its own, arrive a little after each other; the
pool and the fresh contexts are given the same ones, in turns, in processes of their own. Beside
that, on a platform: a unit is asked with 1,000 tokens that nobody has asked before, then another
unit of the same tenant with the same and another question, and llama-server the same way.
"""

import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sits.bench._client import Answer, Ask, ask
from sits.bench._engine import EngineProcess, run_engine
from sits.bench._engine_orders import Done, Setup, Work
from sits.bench._interface import Figure, Measured, Options, Samples, Tell
from sits.bench._peer_places import LLAMA_SERVER
from sits.bench._peers import THREADS, PeerServer, PeerShape, missing_words, run_peer
from sits.bench._platform import (
    BenchPlatform,
    Message,
    chat_body,
    engine_words,
    need_engine,
    run_platform,
)
from sits.bench._stats import p99_of
from sits.bench._texts import draw_words
from sits.bench._units import MODEL

_SEQUENCES, _SEQUENCE_TOKENS, _CELLS = 8, 2048, 8192
_UNITS, _UNIT_WORDS, _NEW_WORDS, _TOKENS = 3, 300, 12, 16
_REQUESTS, _APART_S = 8, 0.05
_SHARED_WORDS, _QUESTION_WORDS, _SHORT_TOKENS = 1000, 8, 2
_PAIR = ("first", "second")


@dataclass(frozen=True)
class _Sizes:
    """How many rounds of requests, and how many shared prefixes."""

    rounds: int
    prefixes: int


_QUICK = _Sizes(rounds=1, prefixes=4)
_WHOLE = _Sizes(rounds=6, prefixes=20)


class KvPoolBench:
    """See the module."""

    name = "kv-pool"
    kind = "measurement"
    meaning = "one pool for all requests, beside a fresh context for each"
    figures = (
        Figure("peak_pss_mb", "the most memory, as its share"),
        Figure("ttft_ms_p50", "first token, requests of units with long prompts", slack=0.2),
        Figure("ttft_ms_p99", "the slowest of these", slack=0.5),
        Figure(
            "reused_prompt_share",
            "of all prompt tokens, those not computed anew",
            slack=0.05,
            higher_is_better=True,
            ratio=True,
        ),
        Figure("second_unit_ms_p50", "first text where 1,000 tokens are another unit's, too"),
        Figure(
            "shared_prefix_speedup",
            "the first unit's time over the second's",
            target=40.0,
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
        with run_platform(options.models_dir) as platform:
            _deploy(platform)
            file = platform.model_file(MODEL)
            shared = _measure_shared(platform, file.path, sizes, dice, tell)
        pools = _measure_pools(file.path, sizes, dice, tell)
        busy = (time.process_time() - began_cpu_s) / (time.perf_counter() - began_s)
        setting = {
            "model": MODEL,
            "representation": file.representation,
            "engine": engine_words(),
            "threads": THREADS,
            "shared_tokens": _SHARED_WORDS,
            "pool_cells": _CELLS,
            "sequence_tokens": _SEQUENCE_TOKENS,
        }
        return Measured(pools.samples() | shared.samples(), setting, busy, shared.proof())


def _deploy(platform: BenchPlatform) -> None:
    for name in _PAIR:
        scale = {"min_instances": 1, "max_instances": 1}
        platform.deploy({"name": name, "model": MODEL, "scale": scale})


@dataclass
class _Shared:
    """First and second asks with the same beginning, of each side by name.

    Attributes:
        times_ms: (first, second) to their first texts.
        cached_tokens: of the second prompt, as its answer says.
    """

    times_ms: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    cached_tokens: dict[str, list[int]] = field(default_factory=dict)

    def note(self, side: str, first: Answer, second: Answer) -> None:
        """Add one pair."""
        both = first.first_piece_ms, second.first_piece_ms
        self.times_ms.setdefault(side, []).append(both)
        details = second.usage.get("prompt_tokens_details") or {}
        self.cached_tokens.setdefault(side, []).append(details.get("cached_tokens", 0))

    def samples(self) -> dict[str, Samples]:
        """Return the speedups and the second's times, with the peers'."""
        speedups = {
            side: tuple(first / second for first, second in times)
            for side, times in self.times_ms.items()
        }
        seconds = {side: tuple(each for _, each in times) for side, times in self.times_ms.items()}
        return {
            "shared_prefix_speedup": Samples(speedups.pop("ours"), peers=speedups),
            "second_unit_ms_p50": Samples(seconds.pop("ours"), peers=seconds),
        }

    def proof(self) -> dict[str, Any]:
        """Return the least of the second prompts' tokens that were there."""
        return {
            "second_cached_tokens": {name: min(all_) for name, all_ in self.cached_tokens.items()}
        }


def _measure_shared(
    platform: BenchPlatform, model: Path, sizes: _Sizes, dice: random.Random, tell: Tell
) -> _Shared:
    shared = _Shared()
    with _run_server(model, tell) as server:
        for name in _PAIR:  # nobody starts on the clock
            ask(platform.ask(name, [("user", "Hello.")], _SHORT_TOKENS))
        for number in range(sizes.prefixes):
            tell(f"prefix {number + 1} of {sizes.prefixes}")
            prefix = draw_words(dice, _SHARED_WORDS)
            chats = [_chat(prefix, dice) for _ in _PAIR]
            sides = {
                "ours": [platform.ask(*it, _SHORT_TOKENS) for it in zip(_PAIR, chats, strict=True)]
            }
            if server is not None:
                bodies = [chat_body("model", chat, _SHORT_TOKENS) for chat in chats]
                sides[server.peer.name] = [Ask(server.port, body) for body in bodies]
            order = list(sides.items())
            dice.shuffle(order)
            for side, asks in order:
                shared.note(side, *[ask(each) for each in asks])
    return shared


def _chat(prefix: str, dice: random.Random) -> list[Message]:
    return [("system", prefix), ("user", draw_words(dice, _QUESTION_WORDS))]


@contextmanager
def _run_server(model: Path, tell: Tell) -> Iterator[PeerServer | None]:
    with contextlib.ExitStack() as stack:
        if LLAMA_SERVER.find() is None:
            tell(missing_words(LLAMA_SERVER))
            yield None
        else:
            shape = PeerShape(model, slots=4, slot_tokens=_SEQUENCE_TOKENS)
            yield stack.enter_context(run_peer(LLAMA_SERVER, shape))


@dataclass
class _Pools:
    """Rounds of requests, to the pool and to fresh contexts: own and baseline."""

    peaks_mb: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    ttft_ms: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    shares: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))

    def note(self, side: int, works: Sequence[Work], done: Sequence[Done], peak_mb: float) -> None:
        """Add one round of one side."""
        self.peaks_mb[side].append(peak_mb)
        self.ttft_ms[side].extend(
            (each.arrivals_s[0] - work.after_s) * 1e3
            for work, each in zip(works, done, strict=True)
        )
        cached = sum(each.cached_tokens for each in done)
        self.shares[side].append(cached / sum(each.prompt_tokens for each in done))

    def samples(self) -> dict[str, Samples]:
        """Return the figures with their baselines."""
        own, baseline = self.ttft_ms
        return {
            "peak_pss_mb": _pairs(self.peaks_mb),
            "ttft_ms_p50": _pairs(self.ttft_ms),
            "ttft_ms_p99": Samples((p99_of(own),), (p99_of(baseline),)),
            "reused_prompt_share": _pairs(self.shares),
        }


def _pairs(sides: tuple[list[float], list[float]]) -> Samples:
    return Samples(tuple(sides[0]), tuple(sides[1]))


def _measure_pools(model: Path, sizes: _Sizes, dice: random.Random, tell: Tell) -> _Pools:
    pools = _Pools()
    one_pool = Setup(str(model), _SEQUENCES, _SEQUENCE_TOKENS, _CELLS, threads=THREADS)
    fresh = Setup(str(model), 1, _SEQUENCE_TOKENS, threads=THREADS, fresh=True)
    systems = [draw_words(dice, _UNIT_WORDS) for _ in range(_UNITS)]
    # One after the other: two processes that map one file would share its memory.
    for number in range(sizes.rounds):
        tell(f"round {number + 1} of {sizes.rounds}")
        rounds = [_works(systems, dice) for _ in range(2)]
        order = [(0, one_pool), (1, fresh)]
        dice.shuffle(order)
        for side, setup in order:
            with run_engine(setup) as engine:
                _run_round(engine, side, rounds, pools)
    return pools


def _run_round(
    engine: EngineProcess, side: int, rounds: Sequence[Sequence[Work]], pools: _Pools
) -> None:
    for works in rounds:
        pools.note(side, works, *engine.run_looking(works))


def _works(systems: Sequence[str], dice: random.Random) -> list[Work]:
    return [
        Work(
            (("system", dice.choice(systems)), ("user", draw_words(dice, _NEW_WORDS))),
            _TOKENS,
            after_s=index * _APART_S,
        )
        for index in range(_REQUESTS)
    ]
