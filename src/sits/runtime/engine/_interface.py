"""What the rest of the runtime knows of an engine.

Error tree::

    SitsError
      +-- EngineError        a call that the engine must not be given, or one that it failed
            +-- ModelLoadError   a file that this engine cannot run
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sits._errors import SitsError
from sits.wire import Sampling


class EngineError(SitsError):
    """An engine was called wrongly, or failed; the message says which."""

    code = "engine_error"


class ModelLoadError(EngineError):
    """The model file cannot be run by this engine."""

    code = "model_load_failed"
    http_status = 422


@dataclass(frozen=True)
class ModelInfo:
    """What a model file says of itself.

    Attributes:
        trained_context_tokens: the longest context that it was trained for.
        vocabulary_tokens: token ids are 0 to one less than this.
        chat_template: its own Jinja template for conversations, if it has one.
        bos_token: the token that must come first, None when the model wants none.
        bos_text, eos_text: the texts that chat templates use for them.
        longest_token_bytes: no token is more bytes of text than this, control tokens' texts
            included: a text of n bytes has at least n / longest_token_bytes tokens.
        control_texts: texts that tokenize to control tokens when these are parsed; in a
            user's own words they must stay plain text.
    """

    trained_context_tokens: int
    vocabulary_tokens: int
    chat_template: str | None
    bos_token: int | None
    bos_text: str
    eos_text: str
    longest_token_bytes: int
    control_texts: tuple[str, ...]


@dataclass(frozen=True)
class PoolShape:
    """The KV pool that an engine takes once, at its start.

    Attributes:
        sequences: how many sequences may be open at once.
        sequence_tokens: the longest sequence, prompt and answer together; the pool has room
            for all sequences at that length.
        batch_tokens: the most tokens that one step takes. A prompt goes in by pieces of this
            size, so it is also how long a cancel may wait.
    """

    sequences: int = 4
    sequence_tokens: int = 2048
    batch_tokens: int = 64

    def __post_init__(self) -> None:
        for name, low, high in (
            ("sequences", 1, 256),
            ("sequence_tokens", 8, 1 << 20),
            ("batch_tokens", 1, 8192),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise EngineError(
                    f"pool shape: {name} is {value}; give a number from {low} to {high}"
                )
        if self.batch_tokens < self.sequences:
            raise EngineError(
                f"pool shape: batch_tokens is {self.batch_tokens} for {self.sequences} sequences; "
                "give at least one token for each sequence"
            )


class Feed(NamedTuple):
    """The next tokens of one sequence, in one step.

    Attributes:
        sequence: an open sequence.
        start: position of the first token: how many tokens the sequence has already.
        tokens: (n,) token ids, n >= 1.
        sample: whether the token after the last one is wanted.
    """

    sequence: int
    start: int
    tokens: Sequence[int]
    sample: bool


class Model(Protocol):
    """A model file, loaded once for each process tree."""

    @property
    def info(self) -> ModelInfo: ...

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Return the tokens of `text`; nothing is put before or after them.

        Args:
            text: any text, also the empty one.
            parse_special: whether the text of a control token becomes that token.
        """
        ...

    def token_bytes(self, token: int) -> bytes:
        """Return a token's bytes: perhaps a part of a UTF-8 character; empty for a control token.

        Raises:
            EngineError: no such token.
        """
        ...

    def is_end(self, token: int) -> bool:
        """Return whether the token ends an answer."""
        ...

    def make_engine(self, shape: PoolShape) -> "Engine":
        """Take a KV pool. Takes all of its memory now.

        Raises:
            EngineError: the pool cannot be had.
        """
        ...

    def close(self) -> None:
        """Give the model's memory back; its engines must be closed. Idempotent."""
        ...


class Engine(Protocol):
    """One KV pool. Not for two threads at once."""

    @property
    def shape(self) -> PoolShape: ...

    def open(self, sequence: int, sampling: Sampling) -> None:
        """Start a sequence, empty, that samples so.

        Raises:
            EngineError: it is open already, or not of the pool.
        """
        ...

    def step(self, feeds: Sequence[Feed]) -> list[int]:
        """Run one batch. The step's feeds become part of their sequences.

        Returns:
            One sampled token for each feed with `sample`, in the order of the feeds. The
            sampled token is not part of its sequence until it is fed.

        Raises:
            EngineError: a feed is not valid (then nothing was done), or the engine failed
                (then every sequence fed must be closed).
        """
        ...

    def close(self, sequence: int) -> None:
        """End a sequence and give its cells back. A sequence that is not open is no error."""
        ...

    def shutdown(self) -> None:
        """Give the pool back. Idempotent."""
        ...
