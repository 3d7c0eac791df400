"""Starts of a tier, measured: what has to be gone before one, what counts as one, what it proves.

Shared by the benchmarks that ask a unit of which nothing runs, each with models of its own. Before
each start it is looked at that no process is there that the tier does without, on the platform
that is asked and on all others, and after it that the platform says the same tier; a start that
was of another is not counted. The clock runs from the last byte of the request, over an open
connection, to the first text that is not empty.
"""

import random
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sits.bench._client import ask
from sits.bench._errors import BenchError
from sits.bench._interface import Samples
from sits.bench._platform import BenchPlatform, Message
from sits.bench._stats import best_of
from sits.bench._texts import draw_words

UNIT = "cold"
SCALES = {
    # Short enough not to wait for; what is kept warm stays so for longer than a run takes.
    "warm": {"idle": "100ms", "cool_after": "1h"},
    "cool": {"idle": "100ms", "cool_after": "400ms"},
}
PREFIX_WORDS, NEW_WORDS = 295, 12  # a prompt of 301 + 20 tokens
SHORT_SYSTEM, SHORT_WORDS = "Be brief.", 3  # one of 20
_TOKENS = 4
_GONE_S = 30.0
_LOOK_S = 0.01
_GONE_AT = {"warm": ("worker",), "cool": ("worker", "template", "host")}
_MOST_WRONG_SHARE = 0.2


@dataclass
class StartCase:
    """One tier and one length of prompt, on a platform of its own.

    Attributes:
        system: the unit's prompt.
        words: how many new ones a request has.
        hot_wanted: whether a request follows each start, for the worker that is there then.
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
    hot_wanted: bool = False
    starts_ms: list[list[float]] = field(default_factory=list)
    hot_ms: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    at_rest: int = 0
    wrong: int = 0

    def deploy(self, model: str) -> None:
        """Deploy its unit, so that it goes to rest as its tier has it.

        Raises:
            BenchError: it is refused, or not ready in time.
        """
        prompt, scale = {"system": self.system}, SCALES[self.tier]
        self.platform.deploy({"name": UNIT, "model": model, "prompt": prompt, "scale": scale})

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

    @property
    def all_ms(self) -> tuple[float, ...]:
        """The milliseconds of all starts."""
        return tuple(took_ms for round_ms in self.starts_ms for took_ms in round_ms)

    @property
    def proof(self) -> dict[str, Any]:
        """What was looked at before each start, and how often."""
        return {
            "starts": len(self.all_ms),
            "starts_without": {" and ".join(_GONE_AT[self.tier]): self.at_rest},
            "of_another_tier": self.wrong,
        }


def measure_round(cases: Iterable[StartCase], starts: int, dice: random.Random) -> None:
    """Start each case so often, all in an order that is drawn.

    Raises:
        BenchError: a start gave no answer, or too many were of another tier.
    """
    order = []
    for case in cases:
        case.starts_ms.append([])
        order += [case] * starts
    dice.shuffle(order)
    for case in order:
        case.starts_ms[-1].append(case.start_ms())


def peers_of(rounds: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, ...]]:
    """Return the milliseconds of each peer, of those that every round has of all."""
    return {peer: tuple(each[peer] for each in rounds) for peer in rounds[0]}


def ratio_to_fastest(
    own: Sequence[Sequence[float]], theirs: Sequence[Mapping[str, float]]
) -> Samples:
    """Return, of each round, the peer that is the fastest of all rounds, over our median.

    Args:
        own: milliseconds of each round.
        theirs: of each round, the milliseconds of each peer.
    """
    by_peer = peers_of(theirs)
    fastest = by_peer[best_of(by_peer, higher_is_better=False)]
    ratios = [
        peer_ms / statistics.median(own_ms) for own_ms, peer_ms in zip(own, fastest, strict=True)
    ]
    return Samples(tuple(ratios))
