"""The state of one request in the batch."""

from array import array
from dataclasses import dataclass, field
from functools import cached_property

from sits.runtime.batch._text import AnswerText
from sits.runtime.engine import Feed, Sampler
from sits.runtime.kv import Entry
from sits.wire import Generate, Piece, Stage, TokenLogprob, Usage


@dataclass(eq=False)
class RunningRequest:
    """A request that waits for, or has, a sequence of the pool.

    Attributes:
        unit: whose request it is.
        tokens: all that is known: the prompt, and the answer so far.
        prompt_tokens: how many of them are the prompt's.
        limit_tokens: at most so many tokens are generated.
        marked_us: when its last piece was made, or when it was admitted.
        deadline_us: when it ends, whole or not.
        adapter: digest of the set of adapters that computes it.
        entry: its sequence in the pool, while it has one.
        state: what its sequence held, while it is parked and that is not to be computed anew.
        cached_tokens: how many of the prompt's were found and not computed; None before that
            is known.
    """

    request: Generate
    unit: str
    tokens: list[int]
    limit_tokens: int
    marked_us: int
    sampler: Sampler
    deadline_us: int | None = None
    adapter: str = ""
    entry: Entry | None = None
    state: bytes | None = None
    cached_tokens: int | None = None
    prompt_tokens: int = field(init=False)
    pieces: int = field(init=False)
    text: AnswerText = field(init=False)

    def __post_init__(self) -> None:
        self.prompt_tokens = len(self.tokens)
        self.pieces = self.request.next_seq
        self.text = AnswerText(self.request.stop)

    @cached_property
    def packed(self) -> bytes:
        """What is to be fed before anything is drawn, as the pool compares it."""
        return array("i", self.tokens).tobytes()

    @property
    def name(self) -> str:
        """The request's id."""
        return self.request.request_id

    @property
    def generated_tokens(self) -> int:
        """How many tokens the answer has."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def unfed(self) -> int:
        """How many tokens are known and not fed yet."""
        return len(self.tokens) - len(self.held.tokens)

    @property
    def decoding(self) -> bool:
        """Whether its next feed is the token that was drawn last."""
        return self.unfed == 1 and self.generated_tokens > 0

    @property
    def held(self) -> Entry:
        """Its sequence; only of a request that has one."""
        if self.entry is None:
            raise AssertionError("a running request has a sequence")
        return self.entry

    def next_feed(self, room: int) -> Feed:
        """Return what it wants fed next: a piece of what is known, at most `room` tokens."""
        start = len(self.held.tokens)
        tokens = self.tokens[start : start + room]
        last = start + len(tokens) == len(self.tokens)
        return Feed(self.held.sequence, start, tokens, self.sampler if last else None)

    def make_piece(
        self,
        text: str,
        tokens: tuple[int, ...],
        now_us: int,
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> Piece:
        """Return the next piece. Mutates the request's counters and its mark."""
        stage = Stage.DECODE if self.pieces else Stage.PREFILL
        delay_us = max(0, now_us - self.marked_us)
        piece = Piece(self.pieces, text, tokens, stage, delay_us, logprobs)
        self.pieces += 1
        self.marked_us = now_us
        return piece

    def usage(self) -> Usage:
        """Return what it has taken so far."""
        return Usage(self.prompt_tokens, self.generated_tokens, self.cached_tokens or 0)
