"""How much memory an engine takes at its start, and what it takes at once."""

from dataclasses import dataclass

from sits.runtime.engine._errors import EngineError

_MOST_SEQUENCES = 256  # llama.cpp's LLAMA_MAX_SEQ


@dataclass(frozen=True)
class PoolShape:
    """The KV pool that an engine takes once, at its start.

    Attributes:
        sequences: how many requests run at once.
        sequence_tokens: the longest sequence, prompt and answer together.
        batch_tokens: the most tokens that one step takes. A prompt goes in by pieces of at most
            this size, so it is also how long a cancel may wait.
        kept: how many sequences beside the running ones hold what was computed, to be shared.
        cells: room for so many tokens, of all sequences together, what is shared counted once;
            0: for all running sequences at their longest.
    """

    sequences: int = 4
    sequence_tokens: int = 2048
    batch_tokens: int = 64
    kept: int = 12
    cells: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("sequences", 1, _MOST_SEQUENCES),
            ("sequence_tokens", 8, 1 << 20),
            ("batch_tokens", 1, 8192),
            ("kept", 0, _MOST_SEQUENCES - self.sequences),
        ):
            _check(f"pool shape: {name}", getattr(self, name), low, high)
        if self.batch_tokens < self.sequences:
            raise EngineError(
                f"pool shape: batch_tokens is {self.batch_tokens} for {self.sequences} sequences; "
                "give at least one token for each sequence"
            )
        if self.cells:
            _check("pool shape: cells", self.cells, self.sequence_tokens, 1 << 24)

    @property
    def handles(self) -> int:
        """How many sequences may be open at once, running and kept."""
        return self.sequences + self.kept

    @property
    def room(self) -> int:
        """How many tokens the pool holds."""
        return self.cells or self.sequences * self.sequence_tokens


@dataclass(frozen=True)
class EmbeddingShape:
    """What an embedding engine takes at once.

    An input's tokens all look at each other, so an input goes into one step whole.

    Attributes:
        inputs: the most inputs in one step.
        input_tokens: the longest input, with the tokens that the model adds to it.
        batch_tokens: the most tokens in one step; at least one longest input.
    """

    inputs: int = 64
    input_tokens: int = 512
    batch_tokens: int = 512

    def __post_init__(self) -> None:
        for name, low, high in (
            ("inputs", 1, 256),
            ("input_tokens", 1, 1 << 17),
            ("batch_tokens", self.input_tokens, 1 << 17),
        ):
            _check(f"embedding shape: {name}", getattr(self, name), low, high)


def _check(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise EngineError(f"{what} is {value}; give a number from {low} to {high}")
