"""A deterministic engine without a model: it answers with the words of the last message.

Tokens are bytes, and a few control tokens after them. So every expected answer is known from
the request alone, characters outside ASCII are split over tokens as in real models, and a test
that mixes up two sequences sees it. It keeps the calls' rules through the same `SequenceTable`
as the real engine.

With adapters (`tiny_adapter`), an answer begins with their words. What was computed with others
than it goes on with makes that `MIXED`, so that a test sees it.

As an embedding model, its vector counts an input's bytes: dimension i of n counts those with
`byte % n == i`, and the whole has the length 1. Its tokenizer puts one control
token before an input and one after it; they count for nothing but the usage.
"""

import array
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sits.runtime.engine import (
    AdapterSet,
    EmbeddingInfo,
    EmbeddingShape,
    EngineError,
    Feed,
    ModelInfo,
    ModelLoadError,
    Pooling,
    PoolShape,
    Sampled,
    SequenceTable,
    check_inputs,
)
from sits.testing._fake_adapters import read_fake_adapter
from sits.wire import Sampling

_CONTROL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
_END, _USER, _ASSISTANT = 256, 258, 259
FAKE_DIMENSIONS = 8
MIXED = b"[mixed adapters]"
_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True)
class FakeBehaviour:
    """How a fake model misbehaves, for tests of faults and of time.

    Attributes:
        step_s: how long each step takes, as a real one would.
        load_error: why loading fails, if it shall.
        step_error: why every step fails, if it shall.
        step_bytes: how much memory each step takes and never gives back.
        embedding: whether it makes vectors instead of text.
        dimensions: of its vectors.
        architecture: of the adapters that it takes.
    """

    step_s: float = 0.0
    load_error: str = ""
    step_error: str = ""
    step_bytes: int = 0
    embedding: bool = False
    dimensions: int = FAKE_DIMENSIONS
    architecture: str = "llama"


def load_fake(path: str) -> "FakeModel":
    """Make a fake model; a file that ends in `.json` holds its `FakeBehaviour`.

    Raises:
        ModelLoadError: that behaviour says so.
    """
    if not path.endswith(".json"):
        return FakeModel()
    return FakeModel(FakeBehaviour(**json.loads(Path(path).read_text(encoding="utf-8"))))


def load_fake_embedding(_path: str) -> "FakeModel":
    """Make a fake embedding model."""
    return FakeModel(FakeBehaviour(embedding=True))


def load_slow_fake(_path: str) -> "FakeModel":
    """Make a fake model that takes 20 ms a step, so that a test can act while it answers."""
    return FakeModel(FakeBehaviour(step_s=0.02))


class FakeModel:
    """See `sits.runtime.engine.Model`."""

    def __init__(self, behaviour: FakeBehaviour | None = None) -> None:
        self.behaviour = behaviour or FakeBehaviour()
        if self.behaviour.load_error:
            raise ModelLoadError(self.behaviour.load_error)
        self.info = ModelInfo(
            trained_context_tokens=4096,
            vocabulary_tokens=256 + len(_CONTROL),
            chat_template=_TEMPLATE,
            bos_token=None,
            bos_text="",
            eos_text=_CONTROL[0],
            longest_token_bytes=max(map(len, _CONTROL)),
            control_texts=_CONTROL,
            cut_texts=_CONTROL,
            embedding=(
                EmbeddingInfo(self.behaviour.dimensions, Pooling.MEAN)
                if self.behaviour.embedding
                else None
            ),
            engine="fake",
        )

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool = False) -> list[int]:
        """See `Model.tokenize`: one token for each byte."""
        if add_special:
            return [_USER, *self.tokenize(text, parse_special=parse_special), _END]
        if not parse_special:
            return list(text.encode("utf-8", "replace"))
        tokens: list[int] = []
        while text:
            found = [(text.find(c), i) for i, c in enumerate(_CONTROL) if c in text]
            at, index = min(found, default=(len(text), -1))
            tokens += text[:at].encode("utf-8", "replace")
            if index >= 0:
                tokens.append(256 + index)
                at += len(_CONTROL[index])
            text = text[at:]
        return tokens

    def token_bytes(self, token: int) -> bytes:
        """See `Model.token_bytes`."""
        if not 0 <= token < self.info.vocabulary_tokens:
            raise EngineError(
                f"token {token} is not in the vocabulary of {self.info.vocabulary_tokens}"
            )
        return bytes([token]) if token < 256 else b""

    def is_end(self, token: int) -> bool:
        """See `Model.is_end`."""
        return token == _END

    def make_engine(self, shape: PoolShape) -> "FakeEngine":
        """See `Model.make_engine`."""
        if self.behaviour.embedding:
            raise EngineError("this fake makes vectors and no text; make an embedding engine")
        return FakeEngine(self, shape)

    def make_embedding_engine(self, shape: EmbeddingShape) -> "FakeEmbeddingEngine":
        """See `Model.make_embedding_engine`."""
        if not self.behaviour.embedding:
            raise EngineError("this fake generates text; load it with `embedding` true")
        return FakeEmbeddingEngine(self, shape)

    def close(self) -> None:
        """See `Model.close`. There is nothing to give back."""


class FakeSampler:
    """See `sits.runtime.engine.Sampler`. The answer is the same for every sampling."""

    def __init__(self, top_logprobs: int | None) -> None:
        self._top = top_logprobs

    def sample(self, tokens: Sequence[int], words: bytes) -> Sampled:
        """Draw what comes after `tokens`, of which the fake is always sure."""
        token = _next_token(tokens, words)
        if self._top is None:
            return Sampled(token)
        return Sampled(token, 0.0, ((token, 0.0),) if self._top else ())

    def close(self) -> None:
        """See `Sampler.close`."""


class FakeEngine:
    """See `sits.runtime.engine.Engine`."""

    def __init__(self, model: FakeModel, shape: PoolShape) -> None:
        self.shape = shape
        self._behaviour = model.behaviour
        self._table = SequenceTable(shape, model.info.vocabulary_tokens)
        self._tokens: dict[int, list[int]] = {}
        self._adapters: dict[int, str] = {}
        self._made_with: dict[int, set[str]] = {}
        self._words: dict[str, bytes] = {"": b""}
        self._hoard: list[bytes] = []

    @property
    def free_cells(self) -> int:
        """See `Engine.free_cells`."""
        return self._table.free_cells

    def load_adapters(self, adapters: AdapterSet) -> None:
        """See `Engine.load_adapters`."""
        if adapters.digest in self._words:
            return
        words = [
            read_fake_adapter(file.path, self._behaviour.architecture) for file in adapters.files
        ]
        self._words[adapters.digest] = b"".join(words)

    def open(self, sequence: int, adapters: str = "") -> None:
        """See `Engine.open`."""
        self._table.open(sequence, adapters)
        self._tokens[sequence] = []
        self._adapters[sequence] = adapters
        self._made_with[sequence] = set()

    def copy(self, source: int, target: int, tokens: int) -> None:
        """See `Engine.copy`."""
        self._table.copy(source, target, tokens)
        self._tokens[target] = self._tokens[source][:tokens]
        self._made_with[target] = set(self._made_with[source])

    def export(self, sequence: int) -> bytes:
        """See `Engine.export`: its tokens, and what they were computed with, as JSON."""
        if not self._table.length(sequence, "export"):
            raise EngineError(f"export: sequence {sequence} has no tokens")
        made_with = sorted(self._made_with[sequence])
        return json.dumps([made_with, self._tokens[sequence]]).encode()

    def restore(self, sequence: int, tokens: int, state: bytes | memoryview) -> None:
        """See `Engine.restore`."""
        self._table.check_empty(sequence, "restore")
        self._table.check_room(sequence, tokens, "restore")
        try:
            made_with, held = json.loads(bytes(state))
        except (TypeError, ValueError) as error:
            raise EngineError(f"restore: this is no state of a fake: {error}") from error
        if not isinstance(held, list) or len(held) != tokens:
            raise EngineError(f"restore: this state is not of {tokens} tokens")
        self._table.grow(sequence, tokens)
        self._tokens[sequence] = held
        self._made_with[sequence] = set(made_with)

    def make_sampler(self, sampling: Sampling, history: Sequence[int] = ()) -> FakeSampler:
        """See `Engine.make_sampler`."""
        self._table.check_tokens(history, "make_sampler")
        self._table.check_tokens([token for token, _ in sampling.logit_bias], "logit_bias")
        if sampling.json_schema is not None:
            try:
                json.loads(sampling.json_schema)
            except ValueError as error:
                raise EngineError(f"the JSON Schema makes no grammar ({error})") from error
        return FakeSampler(sampling.top_logprobs)

    def step(self, feeds: Sequence[Feed], threads: int = 1) -> list[Sampled]:
        """See `Engine.step`."""
        self._table.check(feeds, self._words)
        if self._behaviour.step_s:
            time.sleep(self._behaviour.step_s)
        if self._behaviour.step_error:
            raise EngineError(self._behaviour.step_error)
        if self._behaviour.step_bytes:
            self._hoard.append(b"x" * self._behaviour.step_bytes)
        self._table.advance(feeds)
        for feed in feeds:
            self._tokens[feed.sequence] += feed.tokens
            self._made_with[feed.sequence].add(self._adapters[feed.sequence])
        return [
            cast(FakeSampler, feed.sampler).sample(
                self._tokens[feed.sequence], self._says(feed.sequence)
            )
            for feed in feeds
            if feed.sampler is not None
        ]

    def _says(self, sequence: int) -> bytes:
        """Return with what an answer begins."""
        adapters = self._adapters[sequence]
        return self._words[adapters] if self._made_with[sequence] == {adapters} else MIXED

    def close(self, sequence: int) -> None:
        """See `Engine.close`."""
        if self._table.close(sequence):
            del self._tokens[sequence], self._adapters[sequence], self._made_with[sequence]

    def shutdown(self) -> None:
        """See `Engine.shutdown`."""
        for sequence in list(self._tokens):
            self.close(sequence)


def _next_token(tokens: Sequence[int], words: bytes) -> int:
    """Return what comes after `tokens`: the next byte of words and message, then the end."""
    if _ASSISTANT not in tokens:
        return _END
    answer_at = len(tokens) - tokens[::-1].index(_ASSISTANT)
    said = tokens[: answer_at - 1]
    if _USER not in said:
        return _END
    message = said[len(said) - said[::-1].index(_USER) :]
    message = [*words, *(message[: message.index(_END)] if _END in message else message)]
    done = len(tokens) - answer_at
    return message[done] if done < len(message) else _END


class FakeEmbeddingEngine:
    """See `sits.runtime.engine.EmbeddingEngine`."""

    def __init__(self, model: FakeModel, shape: EmbeddingShape) -> None:
        self.shape = shape
        self.batches: list[list[int]] = []
        """The sizes of the inputs of each batch so far, for tests of batching."""
        self._behaviour = model.behaviour
        self._vocabulary_tokens = model.info.vocabulary_tokens

    def embed(self, inputs: Sequence[Sequence[int]]) -> list[bytes]:
        """See `EmbeddingEngine.embed`."""
        check_inputs(inputs, self.shape, self._vocabulary_tokens)
        self.batches.append([len(tokens) for tokens in inputs])
        if self._behaviour.step_s:
            time.sleep(self._behaviour.step_s)
        if self._behaviour.step_error:
            raise EngineError(self._behaviour.step_error)
        return [_count_bytes(tokens, self._behaviour.dimensions) for tokens in inputs]

    def shutdown(self) -> None:
        """See `EmbeddingEngine.shutdown`. There is nothing to give back."""


def _count_bytes(tokens: Sequence[int], dimensions: int) -> bytes:
    """Return the vector that the module's docstring describes."""
    counts = [0] * dimensions
    for token in tokens:
        if token < 256:
            counts[token % dimensions] += 1
    # An input without bytes has no direction of its own: it is given one.
    length = math.hypot(*counts) or 1.0
    counts[0] += not any(counts)
    values = array.array("f", (count / length for count in counts))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
