"""The validation that every engine shares: which sequences are open and how long they are."""

from collections.abc import Sequence

from sits.runtime.engine._interface import EngineError, Feed, PoolShape


class SequenceTable:
    """Lengths of the open sequences of one pool.

    Invariants: a length is the number of tokens fed since `open`; it never passes
    `shape.sequence_tokens`; a refused step changes nothing.
    """

    def __init__(self, shape: PoolShape, vocabulary_tokens: int) -> None:
        self._shape = shape
        self._vocabulary_tokens = vocabulary_tokens
        self._lengths: dict[int, int] = {}

    def open(self, sequence: int) -> None:
        """Add an empty sequence. Raises `EngineError` when that cannot be."""
        if not 0 <= sequence < self._shape.sequences:
            raise EngineError(
                f"open: sequence {sequence} is not of this pool; it has 0 to "
                f"{self._shape.sequences - 1}"
            )
        if sequence in self._lengths:
            raise EngineError(f"open: sequence {sequence} is open already; close it first")
        self._lengths[sequence] = 0

    def close(self, sequence: int) -> bool:
        """Remove a sequence; return whether it was open."""
        return self._lengths.pop(sequence, None) is not None

    def check(self, feeds: Sequence[Feed]) -> None:
        """Raise `EngineError` when the feeds are no valid step."""
        if not feeds:
            raise EngineError("step: no feeds; a step needs at least one")
        total = sum(len(feed.tokens) for feed in feeds)
        if total > self._shape.batch_tokens:
            raise EngineError(
                f"step: {total} tokens in one batch; at most {self._shape.batch_tokens} are taken"
            )
        seen: set[int] = set()
        for feed in feeds:
            if feed.sequence in seen:
                raise EngineError(f"step: sequence {feed.sequence} is fed twice in one batch")
            seen.add(feed.sequence)
            self._check_feed(feed)

    def _check_feed(self, feed: Feed) -> None:
        length = self._lengths.get(feed.sequence)
        if length is None:
            raise EngineError(f"step: sequence {feed.sequence} is not open")
        if not feed.tokens:
            raise EngineError(f"step: sequence {feed.sequence} is fed no tokens")
        if feed.start != length:
            raise EngineError(
                f"step: sequence {feed.sequence} has {length} tokens, but the feed starts at "
                f"{feed.start}"
            )
        if length + len(feed.tokens) > self._shape.sequence_tokens:
            raise EngineError(
                f"step: sequence {feed.sequence} would have {length + len(feed.tokens)} tokens; "
                f"the pool gives each at most {self._shape.sequence_tokens}"
            )
        for token in feed.tokens:
            if not 0 <= token < self._vocabulary_tokens:
                raise EngineError(
                    f"step: token {token} is not in the vocabulary of {self._vocabulary_tokens}"
                )

    def advance(self, feeds: Sequence[Feed]) -> None:
        """Count a step that was run."""
        for feed in feeds:
            self._lengths[feed.sequence] += len(feed.tokens)
