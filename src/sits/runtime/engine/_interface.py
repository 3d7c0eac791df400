"""What the rest of the runtime knows of an engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from sits.runtime.engine._adapters import AdapterSet
from sits.runtime.engine._shapes import EmbeddingShape, PoolShape
from sits.wire import Sampling, UnitKind


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
        cut_texts: those of them behind which a text may be cut: its parts make the same tokens as
            the whole.
        embedding: what an embedding model has beside this; None: the model generates text.
        shares_prefixes: whether one sequence may begin with another's first tokens; not so where
            the state is of the whole (recurrent models), or forgets (sliding windows).
        engine: which engine and version runs it; only the same one takes its states.
    """

    trained_context_tokens: int
    vocabulary_tokens: int
    chat_template: str | None
    bos_token: int | None
    bos_text: str
    eos_text: str
    longest_token_bytes: int
    control_texts: tuple[str, ...]
    cut_texts: tuple[str, ...] = ()
    embedding: EmbeddingInfo | None = None
    shares_prefixes: bool = True
    engine: str = ""

    @property
    def kind(self) -> UnitKind:
        """What the model makes of a request."""
        return UnitKind.CHAT if self.embedding is None else UnitKind.EMBEDDING


class Sampler(Protocol):
    """How one request's tokens are drawn: its random numbers, counts and grammar so far.

    Not bound to a sequence: a request that is parked and brought back keeps it.
    """

    def close(self) -> None:
        """Give its memory back. Idempotent."""
        ...


class Feed(NamedTuple):
    """The next tokens of one sequence, in one step.

    Attributes:
        sequence: an open sequence.
        start: position of the first token: how many tokens the sequence has already.
        tokens: (n,) token ids, n >= 1.
        sampler: draws the token after the last one; None: that is not wanted.
    """

    sequence: int
    start: int
    tokens: Sequence[int]
    sampler: Sampler | None = None


class Sampled(NamedTuple):
    """A token that was drawn.

    Attributes:
        token: its id.
        logprob: the natural logarithm of its probability, before temperature and cuts; None
            where its request did not ask.
        top: (token, logprob) of the most probable ones at its place, best first.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


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
    """One KV pool: sequences, and the cells that hold their tokens. Not for two threads at once.

    Tokens that a sequence has from another (`copy`) are in the same cells: they are held once,
    until the last of the sequences that have them gives them back.
    """

    @property
    def shape(self) -> PoolShape: ...

    @property
    def free_cells(self) -> int:
        """How many more tokens the pool has room for."""
        ...

    def load_adapters(self, adapters: AdapterSet) -> None:
        """Have a set of adapters ready for steps, for the engine's life. Idempotent.

        Raises:
            AdapterLoadError: a file is not there, is no adapter, or one of another model. What
                was ready before is so still.
        """
        ...

    def open(self, sequence: int, adapters: str = "") -> None:
        """Start a sequence, empty.

        Args:
            sequence: its number.
            adapters: digest of the set that computes it, which must be ready when it is fed;
                empty: the model alone.

        Raises:
            EngineError: it is open already, or not of the pool.
        """
        ...

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Give an empty sequence the first tokens of another, in the same cells.

        What is computed from them is bit-identical to what the source would give.

        Raises:
            EngineError: one is not open, the target is not empty, the source is not so long,
                they are not of one set of adapters, or the model shares nothing
                (`ModelInfo.shares_prefixes`).
        """
        ...

    def export(self, sequence: int) -> bytes:
        """Return a sequence's computed state, for `restore` in an engine of the same model.

        Raises:
            EngineError: it is not open or empty.
        """
        ...

    def restore(self, sequence: int, tokens: int, state: bytes | memoryview) -> None:
        """Give an empty sequence the state of one of so many tokens and of the same adapters.

        That the adapters are the same is the caller's to see: a state does not say.

        Raises:
            EngineError: it is not open or not empty, the pool has no room, or the engine does
                not take this state (then the sequence is empty still).
        """
        ...

    def make_sampler(self, sampling: Sampling, history: Sequence[int] = ()) -> Sampler:
        """Return what draws so.

        Args:
            sampling: how.
            history: the answer's tokens so far, when it goes on from another sampler's.

        Raises:
            EngineError: its schema makes no grammar, or a token is not in the vocabulary.
        """
        ...

    def step(self, feeds: Sequence[Feed], threads: int = 1) -> list[Sampled]:
        """Run one batch. The step's feeds become part of their sequences.

        Args:
            feeds: of different sequences, all of one set of adapters; together at most
                `batch_tokens` tokens.
            threads: how many compute; the result is the same for any number.

        Returns:
            What was drawn for each feed with a sampler, in the order of the feeds. It is not
            part of its sequence until it is fed.

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
