"""What running answers notice of a long prompt that arrives: the time between two of their tokens.

Eight streams run while prompts of 2,000 tokens come. On a platform, with and without these; and
at engine level, where prompts go in by pieces that keep a step short, and whole.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from sits.bench._client import Ask, ask, ask_all
from sits.bench._engine import EngineProcess, run_engine
from sits.bench._engine_orders import Setup, Work
from sits.bench._errors import BenchError
from sits.bench._interface import Figure, Measured, Options, Samples, Tell
from sits.bench._peers import THREADS
from sits.bench._platform import (
    BenchPlatform,
    Message,
    engine_words,
    need_engine,
    run_platform,
)
from sits.bench._stats import p99_of
from sits.bench._texts import draw_words
from sits.bench._units import MODEL

UNIT = "stall"
_STREAMS, _STREAM_WORDS = 8, 12
_LONG_WORDS, _LONG_TOKENS = 2000, 2
_SEQUENCES, _SEQUENCE_TOKENS = 10, 2304
_WITHOUT, _WHOLE_PROMPTS = "without long prompts", "prompts whole, at engine level"
_NO_LIMIT_US = 10**9
_NEVER = -100


@dataclass(frozen=True)
class _Sizes:
    """How often, how long the streams' answers are, and when in a round long prompts come."""

    rounds: int
    tokens: int
    long_at_s: tuple[float, ...]


_QUICK = _Sizes(rounds=2, tokens=64, long_at_s=(0.3,))
_WHOLE = _Sizes(rounds=6, tokens=128, long_at_s=(0.3, 0.9))


class StallBench:
    """See the module."""

    name = "stall"
    kind = "measurement"
    meaning = "the time between tokens of 8 streams while prompts of 2,000 tokens arrive"
    figures = (
        Figure("itl_ms_p99", "between two texts, while long prompts arrive", slack=0.25),
        Figure(
            "itl_engine_ms_p99", "the same at engine level; baseline: prompts whole", slack=0.25
        ),
        Figure("long_ttft_ms_p50", "the long prompts' own first text", slack=0.25),
    )

    def run(self, options: Options, tell: Tell) -> Measured:
        """See `Bench.run`."""
        need_engine(self.name)
        sizes = _QUICK if options.quick else _WHOLE
        dice = random.Random(options.seed)  # noqa: S311 - draws words, no secret
        slots = {"sequences": str(_SEQUENCES), "sequence_tokens": str(_SEQUENCE_TOKENS)}
        with run_platform(options.models_dir, slots) as platform:
            scale = {"min_instances": 1, "max_instances": 1}
            platform.deploy({"name": UNIT, "model": MODEL, "scale": scale})
            file = platform.model_file(MODEL)
            in_pieces = Setup(str(file.path), _SEQUENCES, _SEQUENCE_TOKENS, threads=THREADS)
            whole = Setup(
                in_pieces.model,
                _SEQUENCES,
                _SEQUENCE_TOKENS,
                batch_tokens=_SEQUENCE_TOKENS,
                stall_us=_NO_LIMIT_US,
                threads=THREADS,
            )
            with run_engine(in_pieces) as pieces_engine, run_engine(whole) as whole_engine:
                rounds = _Rounds(platform, pieces_engine, whole_engine, dice)
                busy = rounds.measure(sizes, tell)
        setting = {
            "model": MODEL,
            "representation": file.representation,
            "engine": engine_words(),
            "threads": THREADS,
            "streams": _STREAMS,
            "answer_tokens": sizes.tokens,
            "long_words": _LONG_WORDS,
        }
        return Measured(rounds.samples(), setting, busy, rounds.proof)


@dataclass
class _Rounds:
    """Every side in turns, each with prompts of its own.

    Attributes:
        itl_ms: of each round, what 99 % of the times between two tokens are not above, by side.
        long_ms: of each round on the platform, the first texts of the long prompts.
        proof: how many long prompts arrived while the streams ran.
    """

    platform: BenchPlatform
    in_pieces: EngineProcess
    whole: EngineProcess
    dice: random.Random
    itl_ms: dict[str, list[float]] = field(default_factory=dict)
    long_ms: list[float] = field(default_factory=list)
    proof: dict[str, int] = field(default_factory=lambda: {"long_prompts_amid_streams": 0})

    def measure(self, sizes: _Sizes, tell: Tell) -> float:
        """Measure, and return what this process itself used of a core meanwhile."""
        ask(self.platform.ask(UNIT, [("user", "Hello.")], _LONG_TOKENS))  # it starts off the clock
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        for number in range(sizes.rounds):
            tell(f"round {number + 1} of {sizes.rounds}")
            sides: list[Callable[[int], None]] = [
                partial(self._ask_platform, "itl_ms_p99", sizes.long_at_s),
                partial(self._ask_platform, _WITHOUT, ()),
                partial(self._run_engine, "itl_engine_ms_p99", self.in_pieces, sizes.long_at_s),
                partial(self._run_engine, _WHOLE_PROMPTS, self.whole, sizes.long_at_s),
            ]
            self.dice.shuffle(sides)
            for side in sides:
                side(sizes.tokens)
        return (time.process_time() - began_cpu_s) / (time.perf_counter() - began_s)

    def _ask_platform(self, side: str, long_at_s: Sequence[float], tokens: int) -> None:
        bias = {str(token): _NEVER for token in self.whole.end_tokens}
        asks = [
            self.platform.ask(UNIT, self._chat(_STREAM_WORDS), tokens, logit_bias=bias)
            for _ in range(_STREAMS)
        ]
        for at_s in long_at_s:
            long = self.platform.ask(UNIT, self._chat(_LONG_WORDS), _LONG_TOKENS, logit_bias=bias)
            asks.append(Ask(long.port, long.body, long.headers, at_s))
        answers = ask_all(asks)
        for request, answer in zip(asks, answers, strict=True):
            if answer.usage.get("completion_tokens") != request.body["max_tokens"]:
                raise BenchError(
                    f"an answer of {answer.usage}; expected {request.body['max_tokens']}"
                )
        streams = [[at_s for at_s, _ in answer.pieces] for answer in answers[:_STREAMS]]
        longs = answers[_STREAMS:]
        self.long_ms += [answer.first_piece_ms for answer in longs]
        self._note(side, streams, [answer.sent_s for answer in longs])

    def _run_engine(
        self, side: str, engine: EngineProcess, long_at_s: Sequence[float], tokens: int
    ) -> None:
        works = [Work(tuple(self._chat(_STREAM_WORDS)), tokens) for _ in range(_STREAMS)]
        works += [Work(tuple(self._chat(_LONG_WORDS)), _LONG_TOKENS, at_s) for at_s in long_at_s]
        done = engine.run(works)
        self._note(side, [each.arrivals_s for each in done[:_STREAMS]], long_at_s)

    def _note(
        self, side: str, streams: Sequence[Sequence[float]], longs_s: Sequence[float]
    ) -> None:
        gaps_ms = [
            (after_s - before_s) * 1e3 for times in streams for before_s, after_s in pairwise(times)
        ]
        self.itl_ms.setdefault(side, []).append(p99_of(gaps_ms))
        ends_s = statistics.median(times[-1] for times in streams)
        self.proof["long_prompts_amid_streams"] += sum(at_s < ends_s for at_s in longs_s)

    def _chat(self, words: int) -> list[Message]:
        return [("user", draw_words(self.dice, words))]

    def samples(self) -> Mapping[str, Samples]:
        """Return the figures, each with what it is held against."""
        by_side = {side: tuple(found) for side, found in self.itl_ms.items()}
        others = {side: by_side[side] for side in (_WITHOUT, _WHOLE_PROMPTS)}
        return {
            "itl_ms_p99": Samples(by_side["itl_ms_p99"], by_side[_WITHOUT], others),
            "itl_engine_ms_p99": Samples(by_side["itl_engine_ms_p99"], by_side[_WHOLE_PROMPTS]),
            "long_ttft_ms_p50": Samples(tuple(self.long_ms)),
        }
