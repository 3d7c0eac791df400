"""What the rest of the runtime knows of an engine.

Error tree::

    SitsError
      +-- EngineError        a call that the engine must not be given, or one that it failed
            +-- ModelLoadError   a file that this engine cannot run
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from sits._errors import SitsError
from sits.wire import Sampling, UnitKind


class EngineError(SitsError):
    """An engine was called wrongly, or failed; the message says which."""

    code = "engine_error"


class ModelLoadError(EngineError):
    """The model file cannot be run by this engine."""

    code = "model_load_failed"
    http_status = 422


class Pooling(StrEnum):
    """How the vectors of an input's tokens become one."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"


@dataclass(frozen=True)
class EmbeddingInfo:
    """What an embedding model says of itself.

    Attributes:
        dimensions: of each vector.
        pooling: as its file says.
    """

    dimensions: int
    pooling: Pooling


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
        embedding: what an embedding model has beside this; None: the model generates text.
    """

    trained_context_tokens: int
    vocabulary_tokens: int
    chat_template: str | None
    bos_token: int | None
    bos_text: str
    eos_text: str
    longest_token_bytes: int
    control_texts: tuple[str, ...]
    embedding: EmbeddingInfo | None = None

    @property
    def kind(self) -> UnitKind:
        """What the model makes of a request."""
        return UnitKind.CHAT if self.embedding is None else UnitKind.EMBEDDING


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
            value = getattr(self, name)
            if not low <= value <= high:
                raise EngineError(
                    f"embedding shape: {name} is {value}; give a number from {low} to {high}"
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

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool = False) -> list[int]:
        """Return the tokens of `text`.

        Args:
            text: any text, also the empty one.
            parse_special: whether the text of a control token becomes that token.
            add_special: put those before and after it that the model's tokenizer does
                (beginning, end, class, separator).
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

    def make_embedding_engine(self, shape: EmbeddingShape) -> "EmbeddingEngine":
        """Take what the embedding of one batch needs.

        Raises:
            EngineError: the model is no embedding model, or the memory cannot be had.
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


class EmbeddingEngine(Protocol):
    """Turns token ids into vectors. Keeps nothing between two calls. Not for two threads."""

    @property
    def shape(self) -> EmbeddingShape: ...

    def embed(self, inputs: Sequence[Sequence[int]]) -> list[bytes]:
        """Run one batch.

        Args:
            inputs: token ids of each input, with those that the model's tokenizer adds; (n,)
                with 1 <= n <= `input_tokens`.

        Returns:
            One vector for each input, in order: (dimensions,) float32, little-endian, of
            length 1.

        Raises:
            EngineError: the inputs are no valid batch (then nothing was done), or the engine
                failed.
        """
        ...

    def shutdown(self) -> None:
        """Give the memory back. Idempotent."""
        ...
