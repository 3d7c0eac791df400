"""The books that every engine keeps: which sequences are open, and whose tokens fill the cells."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from sits.runtime.engine._errors import EngineError
from sits.runtime.engine._interface import Feed
from sits.runtime.engine._shapes import PoolShape


@dataclass(eq=False)
class _Run:
    """Tokens next to each other that the same sequences have. Its cells are held once."""

    tokens: int
    holders: int = 1


class SequenceTable:
    """Lengths, cells and adapters of the open sequences of one pool.

    Invariants: a sequence's length is the sum of its runs and never passes
    `shape.sequence_tokens`; the runs of all sequences, each counted once, are `used_cells` tokens
    and never pass `shape.room`; a refused call changes nothing.
    """

    def __init__(self, shape: PoolShape, vocabulary_tokens: int) -> None:
        self._shape = shape
        self._vocabulary_tokens = vocabulary_tokens
        self._runs: dict[int, list[_Run]] = {}
        self._adapters: dict[int, str] = {}
        self.used_cells = 0

    @property
    def free_cells(self) -> int:
        """How many more tokens there is room for."""
        return self._shape.room - self.used_cells

    def open(self, sequence: int, adapters: str = "") -> None:
        """Add an empty sequence of a set of adapters. Raises `EngineError` when that cannot be."""
        if not 0 <= sequence < self._shape.handles:
            raise EngineError(
                f"open: sequence {sequence} is not of this pool; it has 0 to "
                f"{self._shape.handles - 1}"
            )
        if sequence in self._runs:
            raise EngineError(f"open: sequence {sequence} is open already; close it first")
        self._runs[sequence] = []
        self._adapters[sequence] = adapters

    def close(self, sequence: int) -> bool:
        """Remove a sequence; return whether it was open."""
        runs = self._runs.pop(sequence, None)
        self._adapters.pop(sequence, None)
        for run in runs or ():
            run.holders -= 1
            if not run.holders:
                self.used_cells -= run.tokens
        return runs is not None

    def length(self, sequence: int, call: str) -> int:
        """Return how many tokens a sequence has. Raises `EngineError` when it is not open."""
        runs = self._runs.get(sequence)
        if runs is None:
            raise EngineError(f"{call}: sequence {sequence} is not open")
        return sum(run.tokens for run in runs)

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Give `target` the first tokens of `source`. Raises `EngineError` when that cannot be."""
        held = self.length(source, "copy")
        self.check_empty(target, "copy")
        if self._adapters[source] != self._adapters[target]:
            raise EngineError(
                f"copy: sequences {source} and {target} are of different sets of adapters; what "
                "one computes is not true of the other"
            )
        if not 1 <= tokens <= held:
            raise EngineError(
                f"copy: {tokens} tokens of sequence {source}, which has {held}; give 1 to {held}"
            )
        self._cut(source, tokens)
        for run in self._runs[source]:
            if tokens == 0:
                break
            run.holders += 1
            self._runs[target].append(run)
            tokens -= run.tokens

    def check_empty(self, sequence: int, call: str) -> None:
        """Raise `EngineError` unless a sequence is open and has no tokens."""
        if self.length(sequence, call):
            raise EngineError(f"{call}: sequence {sequence} has tokens already; open another")

    def check_room(self, sequence: int, tokens: int, call: str) -> None:
        """Raise `EngineError` unless a sequence may have so many more tokens."""
        length = self.length(sequence, call) + tokens
        if length > self._shape.sequence_tokens:
            raise EngineError(
                f"{call}: sequence {sequence} would have {length} tokens; "
                f"the pool gives each at most {self._shape.sequence_tokens}"
            )
        if tokens > self.free_cells:
            raise EngineError(
                f"{call}: {tokens} more tokens and {self.free_cells} free cells of "
                f"{self._shape.room}; close a sequence first"
            )

    def check(self, feeds: Sequence[Feed], ready: Container[str]) -> str:
        """Return the digest of the set of adapters that a step is computed with.

        Args:
            feeds: the step's.
            ready: digests of the sets that are loaded.

        Raises:
            EngineError: the feeds are no valid step.
        """
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
        if total > self.free_cells:
            raise EngineError(
                f"step: {total} tokens and {self.free_cells} free cells of {self._shape.room}; "
                "close a sequence first"
            )
        return self._check_adapters(feeds, ready)

    def _check_adapters(self, feeds: Sequence[Feed], ready: Container[str]) -> str:
        found = {self._adapters[feed.sequence] for feed in feeds}
        if len(found) > 1:
            raise EngineError(
                f"step: sequences of {len(found)} sets of adapters in one batch; give those of one"
            )
        (adapters,) = found
        if adapters and adapters not in ready:
            raise EngineError(f"step: the adapters {adapters[:12]} are not loaded; load them first")
        return adapters

    def _check_feed(self, feed: Feed) -> None:
        length = self.length(feed.sequence, "step")
        if not feed.tokens:
            raise EngineError(f"step: sequence {feed.sequence} is fed no tokens")
        if feed.start != length:
            raise EngineError(
                f"step: sequence {feed.sequence} has {length} tokens, but the feed starts at "
                f"{feed.start}"
            )
        self.check_room(feed.sequence, len(feed.tokens), "step")
        self.check_tokens(feed.tokens, "step")

    def check_tokens(self, tokens: Sequence[int], call: str) -> None:
        """Raise `EngineError` for a token that there is not."""
        for token in tokens:
            if not 0 <= token < self._vocabulary_tokens:
                raise EngineError(
                    f"{call}: token {token} is not in the vocabulary of {self._vocabulary_tokens}"
                )

    def advance(self, feeds: Sequence[Feed]) -> None:
        """Count a step that was run."""
        for feed in feeds:
            self.grow(feed.sequence, len(feed.tokens))

    def grow(self, sequence: int, tokens: int) -> None:
        """Count tokens that a sequence has now, in cells of its own."""
        runs = self._runs[sequence]
        self.used_cells += tokens
        if runs and runs[-1].holders == 1:
            runs[-1].tokens += tokens
        else:
            runs.append(_Run(tokens))

    def _cut(self, sequence: int, at: int) -> None:
        """Make a run of a sequence end after `at` tokens, in whoever has that run."""
        for run in self._runs[sequence]:
            if at < run.tokens:
                break
            at -= run.tokens
        else:
            return
        if at == 0:
            return
        rest = _Run(run.tokens - at, run.holders)
        run.tokens = at
        for runs in self._runs.values():
            if run in runs:
                runs.insert(runs.index(run) + 1, rest)
