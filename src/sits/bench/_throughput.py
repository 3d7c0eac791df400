"""How many tokens a second come at 1, 8 and 16 streams, beside peers that batch too.

Every answer has the same length, as no token that ends one is drawn, and is counted by the side
that gave it. Two comparisons, on the same file and with as many threads:

- `streams_N`: the runtime's batcher in a process of its own, against the peers' servers asked for
  whole documents, which costs them least.
- `http_N`: the platform's endpoint against the peers', all streamed to the same client.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sits.bench._client import Answer, Ask, ask_all
from sits.bench._engine import EngineProcess, run_engine
from sits.bench._engine_orders import Setup, Work
from sits.bench._errors import BenchError
from sits.bench._interface import Figure, Measured, Options, Samples, Tell
from sits.bench._peer_places import LLAMA_SERVER, XLLAMACPP
from sits.bench._peers import THREADS, PeerServer, PeerShape, missing_words, run_peer
from sits.bench._platform import (
    BenchPlatform,
    Message,
    chat_body,
    engine_words,
    need_engine,
    run_platform,
)
from sits.bench._stats import best_of
from sits.bench._texts import draw_words
from sits.bench._units import MODEL

UNIT = "load"
_SLOTS = 16
_SLOT_TOKENS = 512
_WORDS = 12
_NEVER = -100
OURS = "ours"
_STREAMS = {"streams_1": 1, "streams_8": 8, "streams_16": 16}
_HTTP = {"http_8": 8, "http_16": 16}


@dataclass(frozen=True)
class _Sizes:
    rounds: int
    tokens: int
    few_peers: bool


_QUICK = _Sizes(rounds=3, tokens=32, few_peers=True)
_WHOLE = _Sizes(rounds=6, tokens=96, few_peers=False)

Prompts = Sequence[Sequence[Message]]
Rate = Callable[[Prompts, int], float]
"""Asks all prompts at once for so many tokens each, and returns the tokens a second."""


def _ratio(name: str, meaning: str, target: float | None) -> Figure:
    return Figure(name, meaning, target, slack=0.1, higher_is_better=True, ratio=True)


def _rate(name: str) -> Figure:
    meaning = f"tokens a second of {name}"
    return Figure(f"{name}_tokens_per_s", meaning, slack=0.2, higher_is_better=True)


class ThroughputBench:
    """See the module."""

    name = "throughput"
    kind = "measurement"
    meaning = "tokens a second at 1, 8 and 16 streams, beside peers that batch"
    figures = (
        _ratio("streams_1", "our engine level over the best peer", None),
        _ratio("streams_8", "our engine level over the best peer", 1.0),
        _ratio("streams_16", "our engine level over the best peer", 1.0),
        _ratio("http_8", "our endpoint over the best peer's", 0.9),
        _ratio("http_16", "our endpoint over the best peer's", 0.9),
        *map(_rate, (*_STREAMS, *_HTTP)),
    )

    def run(self, options: Options, tell: Tell) -> Measured:
        """See `Bench.run`."""
        need_engine(self.name)
        sizes = _QUICK if options.quick else _WHOLE
        dice = random.Random(options.seed)  # noqa: S311 - draws words and an order, no secret
        slots = {"sequences": str(_SLOTS), "sequence_tokens": str(_SLOT_TOKENS)}
        with run_platform(options.models_dir, slots) as platform:
            platform.deploy(
                {"name": UNIT, "model": MODEL, "scale": {"min_instances": 1, "max_instances": 1}}
            )
            file = platform.model_file(MODEL)
            setup = Setup(str(file.path), _SLOTS, _SLOT_TOKENS, threads=THREADS)
            shape = PeerShape(file.path, _SLOTS, _SLOT_TOKENS)
            with run_engine(setup) as engine, _run_peers(shape, sizes, tell) as peers:
                rounds = _Rounds(_sides(platform, engine, peers), dice)
                busy = rounds.measure(sizes, tell)
        setting = {
            "model": MODEL,
            "representation": file.representation,
            "engine": engine_words(),
            "threads": THREADS,
            "answer_tokens": sizes.tokens,
        }
        # Against xllamacpp alone, which is slower, the ratios would flatter.
        why = missing_words(LLAMA_SERVER)
        left_out = {} if LLAMA_SERVER.find() else dict.fromkeys((*_STREAMS, *_HTTP), why)
        return Measured(rounds.samples(), setting, busy, rounds.proof(), left_out)


@contextmanager
def _run_peers(shape: PeerShape, sizes: _Sizes, tell: Tell) -> Iterator[list[PeerServer]]:
    """Run what is installed of the peers that batch, and say what is not."""
    with contextlib.ExitStack() as stack:
        running = []
        for peer in (LLAMA_SERVER,) if sizes.few_peers else (LLAMA_SERVER, XLLAMACPP):
            if peer.find() is None:
                tell(missing_words(peer))
            else:
                running.append(stack.enter_context(run_peer(peer, shape)))
        yield running


def _sides(
    platform: BenchPlatform, engine: EngineProcess, peers: Sequence[PeerServer]
) -> Mapping[str, Mapping[str, Rate]]:
    """Return who is measured, for each kind of figure: ours, and the peers by name."""
    return {
        "streams": {
            OURS: lambda prompts, tokens: _engine_rate(engine, prompts, tokens),
            **{it.peer.name: _peer_rate(it, stream=False) for it in peers},
        },
        "http": {
            OURS: _platform_rate(platform, engine.end_tokens),
            **{it.peer.name: _peer_rate(it, stream=True) for it in peers},
        },
    }


def _engine_rate(engine: EngineProcess, prompts: Prompts, tokens: int) -> float:
    done = engine.run([Work(tuple(messages), tokens) for messages in prompts])
    return tokens * len(done) / max(each.arrivals_s[-1] for each in done)


def _platform_rate(platform: BenchPlatform, end_tokens: Sequence[int]) -> Rate:
    bias = {str(token): _NEVER for token in end_tokens}

    def measure(prompts: Prompts, tokens: int) -> float:
        asks = [platform.ask(UNIT, messages, tokens, logit_bias=bias) for messages in prompts]
        return _asked_rate(asks, tokens, stream=True)

    return measure


def _peer_rate(server: PeerServer, *, stream: bool) -> Rate:
    more: dict[str, Any] = {"ignore_eos": True}
    if not stream:
        more |= {"stream": False, "stream_options": None}

    def measure(prompts: Prompts, tokens: int) -> float:
        bodies = [chat_body("model", messages, tokens, **more) for messages in prompts]
        return _asked_rate([Ask(server.port, body) for body in bodies], tokens, stream=stream)

    return measure


def _asked_rate(asks: Sequence[Ask], tokens: int, *, stream: bool) -> float:
    answers = ask_all(asks)
    for answer in answers:
        _check(answer, tokens, stream=stream)
    began_s = min(answer.sent_s for answer in answers)
    ended_s = max(answer.arrivals[-1][0] for answer in answers)
    return tokens * len(answers) / (ended_s - began_s)


def _check(answer: Answer, tokens: int, *, stream: bool) -> None:
    """Refuse an answer that has another number of tokens, or no text."""
    if stream:
        given, text = answer.usage, "".join(words for _, words in answer.pieces)
    else:
        given = answer.document["usage"]
        text = answer.document["choices"][0]["message"]["content"]
    if given.get("completion_tokens") != tokens or not text:
        raise BenchError(f"an answer of {given} and {text!r}; expected {tokens} tokens and a text")


@dataclass
class _Rounds:
    """All sides in turns; which is first is drawn.

    Attributes:
        rates: by figure and side.
    """

    sides: Mapping[str, Mapping[str, Rate]]
    dice: random.Random
    rates: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    answers: int = 0

    def measure(self, sizes: _Sizes, tell: Tell) -> float:
        """Measure, and return what this process itself used of a core meanwhile."""
        for rates in self.sides.values():  # nobody loads or allocates on the clock
            for rate in rates.values():
                rate(self._prompts(2), sizes.tokens)
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        for number in range(sizes.rounds):
            tell(f"round {number + 1} of {sizes.rounds}")
            for name, streams in {**_STREAMS, **_HTTP}.items():
                self._measure(name, streams, sizes.tokens)
        return (time.process_time() - began_cpu_s) / (time.perf_counter() - began_s)

    def _measure(self, name: str, streams: int, tokens: int) -> None:
        found = self.rates.setdefault(name, {})
        order = list(self.sides[name.partition("_")[0]].items())
        self.dice.shuffle(order)
        prompts = self._prompts(streams)
        for side, rate in order:
            found.setdefault(side, []).append(rate(prompts, tokens))
            self.answers += streams

    def _prompts(self, count: int) -> Prompts:
        return [[("user", draw_words(self.dice, _WORDS))] for _ in range(count)]

    def samples(self) -> dict[str, Samples]:
        """Return the rates with those of the peers, and their ratios where there are peers."""
        samples = {}
        for name, found in self.rates.items():
            own = tuple(found[OURS])
            peers = {side: tuple(rates) for side, rates in found.items() if side != OURS}
            samples[f"{name}_tokens_per_s"] = Samples(own, peers=peers)
            if peers:
                best = peers[best_of(peers, higher_is_better=True)]
                ratios = tuple(one / other for one, other in zip(own, best, strict=True))
                samples[name] = Samples(ratios)
        return samples

    def proof(self) -> dict[str, int]:
        """Return how many answers were looked at, and had their number of tokens and a text."""
        return {"answers_checked": self.answers}
