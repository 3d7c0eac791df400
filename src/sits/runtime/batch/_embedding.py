"""Which inputs go into each step of an embedding engine, and what becomes of their vectors.

Invariants: a request is here or forgotten, never half of either; requests take turns, input by
input, so that a large one slows a small one by at most one step; a step is so many tokens as
this machine does in about `_STEP_US`, but at least one input, so that a cancel acts soon; what
is wrong with any input of a request is found before the first of them is computed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sits.runtime.batch._refused import RequestRefused
from sits.runtime.engine import EmbeddingEngine, EngineError, Model
from sits.wire import Embed, Embedded, Failed, FromWorker, Generate, Usage

_STEP_US = 80_000
# Before anything was measured: what a small model does in a step on a slow core.
_FIRST_TOKENS = 128
_LEAST_TOKENS = 16
# Texts are tokenized between steps, so much in each; the slowest tokenizer takes about 7 ms.
_TEXT_BYTES = 16 * 1024
# The tokens of a text are not known before it is tokenized, and a word that is not in the
# vocabulary is one token of any length; but no real text has so many bytes a token.
_BYTES_A_TOKEN = 64
# All vectors of an answer go in one message.
_ANSWER_BYTES = 8 * 1024 * 1024


@dataclass(eq=False)
class _Request:
    """One request's inputs on their way to vectors.

    Attributes:
        tokens: the inputs that are tokenized, in order.
        next_input: the first that is not in any step yet.
        vectors: those that are made, in order.
    """

    request: Embed
    tokens: list[list[int]] = field(default_factory=list)
    next_input: int = 0
    vectors: list[bytes] = field(default_factory=list)

    @property
    def tokenized(self) -> bool:
        return len(self.tokens) == len(self.request.inputs)

    @property
    def finished(self) -> bool:
        return len(self.vectors) == len(self.request.inputs)


class EmbeddingBatcher:
    """Runs the requests of one instance on one embedding engine. The interface is `Batcher`'s.

    Args:
        now_us: a monotonic clock, in microseconds.
        queue_limit: how many requests may be here; the next is refused.
    """

    def __init__(
        self,
        model: Model,
        engine: EmbeddingEngine,
        now_us: Callable[[], int],
        *,
        queue_limit: int = 64,
    ) -> None:
        if model.info.embedding is None:
            raise AssertionError("an embedding batcher is for an embedding model")
        self._model = model
        self._dimensions = model.info.embedding.dimensions
        self._engine = engine
        self._now_us = now_us
        self._queue_limit = queue_limit
        # In the order of their turns.
        self._requests: deque[_Request] = deque()
        self._step_tokens = float(min(_FIRST_TOKENS, engine.shape.batch_tokens))

    @property
    def busy(self) -> bool:
        """Whether there is anything to step."""
        return bool(self._requests)

    @property
    def step_us(self) -> float:
        """How long the longest step is likely to take."""
        return float(_STEP_US)

    @property
    def request_ids(self) -> frozenset[str]:
        """The ids of all requests here."""
        return frozenset(r.request.request_id for r in self._requests)

    def aim(self, unit: str, itl_ms: float | None) -> None:
        """See `Batcher.aim`: vectors have no tokens between which there could be a time."""

    def submit(self, request: Generate | Embed, unit: str = "", adapter: str = "") -> None:
        """Take a request in. There are no adapters for vectors.

        Raises:
            RequestRefused: it wants text, something in it cannot be embedded, its id is in use,
                or too many are here already. Nothing of it is kept.
        """
        if not isinstance(request, Embed):
            raise RequestRefused(
                "wrong_endpoint",
                "this unit's model makes vectors and generates no text; call /v1/embeddings",
            )
        if request.request_id in self.request_ids:
            raise RequestRefused(
                "duplicate_request", f"request id {request.request_id!r} is in use; choose another"
            )
        if len(self._requests) >= self._queue_limit:
            raise RequestRefused(
                "overloaded",
                f"{len(self._requests)} requests wait for this instance already; try again later",
                retryable=True,
            )
        self._check(request)
        self._requests.append(_Request(request))

    def cancel(self, request_id: str) -> None:
        """Forget a request. An unknown id is no error."""
        self._requests = deque(r for r in self._requests if r.request.request_id != request_id)

    def step(self) -> list[FromWorker]:
        """Tokenize a little, run one batch, and return what that brought.

        When the engine fails, the requests of that batch fail and the others go on.
        """
        events = self._tokenize()
        batch = self._plan()
        if not batch:
            return events
        inputs = [request.tokens[number] for request, number in batch]
        began_us = self._now_us()
        try:
            vectors = self._engine.embed(inputs)
        except EngineError as error:
            return events + self._fail({id(r): r for r, _ in batch}, error)
        self._learn(sum(map(len, inputs)), self._now_us() - began_us)
        for (request, _), vector in zip(batch, vectors, strict=True):
            request.vectors.append(vector)
        return events + list(self._collect())

    def _check(self, request: Embed) -> None:
        """Raise `RequestRefused` for what can be seen without the tokenizer."""
        if request.dimensions not in (None, self._dimensions):
            raise RequestRefused(
                "unsupported_dimensions",
                f"'dimensions' is {request.dimensions}; this model's vectors have "
                f"{self._dimensions} and cannot be cut; leave it out",
            )
        if not request.inputs:
            raise RequestRefused("invalid_prompt", "there is no input; give at least one")
        most = _ANSWER_BYTES // (4 * self._dimensions)
        if len(request.inputs) > most:
            raise RequestRefused(
                "invalid_prompt",
                f"there are {len(request.inputs)} inputs; with vectors of {self._dimensions} "
                f"dimensions at most {most} are taken at once: send them in several requests",
            )
        for number, given in enumerate(request.inputs):
            self._check_input(number, given)

    def _check_input(self, number: int, given: str | tuple[int, ...]) -> None:
        if not given:
            raise RequestRefused("invalid_prompt", f"input {number} is empty; leave it out")
        limit = self._engine.shape.input_tokens
        if isinstance(given, str):
            size = len(given.encode("utf-8", "replace"))
            if size > limit * _BYTES_A_TOKEN:
                raise _too_long(number, f"{size} bytes", limit)
            return
        if len(given) > limit:
            raise _too_long(number, f"{len(given)} tokens", limit)
        vocabulary = self._model.info.vocabulary_tokens
        if min(given) < 0 or max(given) >= vocabulary:
            wrong = next(token for token in given if not 0 <= token < vocabulary)
            raise RequestRefused(
                "invalid_prompt",
                f"input {number} has the token {wrong}; this model's tokens are 0 to "
                f"{vocabulary - 1}: send text, or the ids of its own tokenizer",
            )

    def _tokenize(self) -> list[FromWorker]:
        """Turn some of the inputs into tokens; return the failures of those that are too long."""
        room = _TEXT_BYTES
        failures: list[FromWorker] = []
        waiting = deque(r for r in self._requests if not r.tokenized)
        while waiting and room > 0:
            request = waiting.popleft()
            number = len(request.tokens)
            given = request.request.inputs[number]
            room -= len(given)
            tokens = self._tokens_of(given)
            self._requests.remove(request)
            limit = self._engine.shape.input_tokens
            if len(tokens) > limit:
                error = _too_long(number, f"{len(tokens)} tokens", limit)
                failures.append(Failed(request.request.request_id, error.reason, str(error)))
                continue
            request.tokens.append(tokens)
            self._requests.append(request)
            if not request.tokenized:
                waiting.append(request)
        return failures

    def _tokens_of(self, given: str | tuple[int, ...]) -> list[int]:
        if isinstance(given, str):
            return self._model.tokenize(given, parse_special=False, add_special=True)
        return list(given)

    def _plan(self) -> list[tuple[_Request, int]]:
        """Choose the inputs of the next step: one of each request in turn, while there is room.

        Mutates the requests' places and turns.
        """
        room = int(self._step_tokens)
        batch: list[tuple[_Request, int]] = []
        waiting = deque(r for r in self._requests if r.tokenized)
        while waiting and len(batch) < self._engine.shape.inputs:
            request = waiting.popleft()
            size = len(request.tokens[request.next_input])
            if batch and size > room:
                break
            room -= size
            batch.append((request, request.next_input))
            request.next_input += 1
            self._requests.remove(request)
            self._requests.append(request)
            if request.next_input < len(request.tokens):
                waiting.append(request)
        return batch

    def _learn(self, tokens: int, took_us: int) -> None:
        """Move the size of a step towards what takes `_STEP_US`."""
        fitting = tokens * _STEP_US / max(1, took_us)
        moved = (self._step_tokens + min(fitting, 2 * self._step_tokens)) / 2
        self._step_tokens = min(max(moved, _LEAST_TOKENS), self._engine.shape.batch_tokens)

    def _collect(self) -> Iterator[FromWorker]:
        """Give the answers that are whole, and forget their requests."""
        for request in [r for r in self._requests if r.finished]:
            self._requests.remove(request)
            usage = Usage(sum(map(len, request.tokens)), 0)
            yield Embedded(request.request.request_id, tuple(request.vectors), usage)

    def _fail(self, requests: dict[int, _Request], error: EngineError) -> list[FromWorker]:
        self._requests = deque(r for r in self._requests if id(r) not in requests)
        return [
            Failed(request.request.request_id, error.code, str(error))
            for request in requests.values()
        ]


def _too_long(number: int, size: str, limit: int) -> RequestRefused:
    return RequestRefused(
        "context_length_exceeded",
        f"input {number} has {size}; this unit's model takes at most {limit} tokens of each "
        "input, with those that it adds itself: cut the text into shorter inputs",
    )
