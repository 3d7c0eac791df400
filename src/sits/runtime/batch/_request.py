"""The state of one request in the batch."""

from dataclasses import dataclass, field

from sits.runtime.batch._text import AnswerText
from sits.runtime.engine import Feed, Sampler
from sits.wire import Generate, Piece, Stage, Usage


@dataclass(eq=False)
class RunningRequest:
    """A request that waits for, or has, a sequence of the pool.

    Attributes:
        prompt: all prompt tokens.
        limit_tokens: at most so many tokens are generated.
        sequence: its sequence in the pool, once it has one.
        fed_tokens: how many tokens its sequence has.
        next_token: the sampled token that is not fed yet.
        marked_us: when its last piece was made, or when it was admitted.
    """

    request: Generate
    prompt: list[int]
    limit_tokens: int
    marked_us: int
    sampler: Sampler
    sequence: int = -1
    fed_tokens: int = 0
    next_token: int | None = None
    generated_tokens: int = 0
    pieces: int = 0
    text: AnswerText = field(init=False)

    def __post_init__(self) -> None:
        self.text = AnswerText(self.request.stop)

    @property
    def prefilling(self) -> bool:
        """Whether a part of its prompt is not fed yet."""
        return self.fed_tokens < len(self.prompt)

    def next_feed(self, room: int) -> Feed:
        """Return what it wants fed next: a piece of its prompt, or its newest token.

        Args:
            room: at most so many tokens, at least 1.
        """
        if self.prefilling:
            tokens = self.prompt[self.fed_tokens : self.fed_tokens + room]
            last = self.fed_tokens + len(tokens) == len(self.prompt)
            return Feed(self.sequence, self.fed_tokens, tokens, self.sampler if last else None)
        if self.next_token is None:
            raise AssertionError("a request that decodes has a sampled token")
        return Feed(self.sequence, self.fed_tokens, (self.next_token,), self.sampler)

    def make_piece(self, text: str, tokens: tuple[int, ...], now_us: int) -> Piece:
        """Return the next piece. Mutates the request's counters and its mark."""
        stage = Stage.DECODE if self.pieces else Stage.PREFILL
        piece = Piece(self.pieces, text, tokens, stage, max(0, now_us - self.marked_us))
        self.pieces += 1
        self.marked_us = now_us
        return piece

    def usage(self) -> Usage:
        """Return what it has taken so far."""
        return Usage(len(self.prompt), self.generated_tokens)
