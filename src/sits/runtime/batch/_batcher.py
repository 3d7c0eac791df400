"""The requests of one instance: their lives, from arrival to the last piece.

Invariants: a request waits, runs, is parked, or is forgotten, never two of them; one that has
ended holds no sequence; whatever ends it, its sampler is given back. What goes into a step is
`Scheduler`'s to say.
"""

from collections.abc import Callable, Iterator

from sits._errors import SitsError
from sits.runtime.batch._prompt import prompt_tokens
from sits.runtime.batch._refused import RequestRefused
from sits.runtime.batch._request import RunningRequest
from sits.runtime.batch._rules import BatchRules
from sits.runtime.batch._scheduler import Scheduler
from sits.runtime.batch._tokenized import Tokenized
from sits.runtime.engine import Engine, EngineError, Model, Sampled
from sits.runtime.kv import KvPool, Shelf
from sits.wire import (
    Embed,
    Emitted,
    Failed,
    Finished,
    FinishReason,
    FromWorker,
    Generate,
    TokenLogprob,
)

SHELF_BYTES = 256 * 1024 * 1024


def make_pool(model: Model, engine: Engine, now_us: Callable[[], int]) -> KvPool:
    """Return a pool on an engine, with a shelf of `SHELF_BYTES`."""
    return KvPool(engine, model.info.shares_prefixes, now_us, Shelf(SHELF_BYTES))


_DEFAULT_RULES = BatchRules()


class Batcher:
    """Runs the requests of one instance on one engine.

    Args:
        now_us: a monotonic clock, in microseconds.
        pool: the engine's sequences, with what is in them already; None: a new one.
        rules: how.
    """

    def __init__(
        self,
        model: Model,
        engine: Engine,
        now_us: Callable[[], int],
        *,
        pool: KvPool | None = None,
        rules: BatchRules = _DEFAULT_RULES,
    ) -> None:
        self._model = model
        self._engine = engine
        self._now_us = now_us
        self._rules = rules
        self._tokenized = Tokenized(model)
        self._pool = pool or make_pool(model, engine, now_us)
        self._scheduler = Scheduler(engine, self._pool, rules)
        self._requests: dict[str, RunningRequest] = {}
        self._told: list[FromWorker] = []

    @property
    def busy(self) -> bool:
        """Whether there is anything to step."""
        return bool(self._requests or self._told)

    @property
    def request_ids(self) -> frozenset[str]:
        """The ids of all requests here, waiting, running or parked."""
        return frozenset(self._requests)

    @property
    def step_us(self) -> float:
        """How long the longest step is likely to take."""
        return self._scheduler.longest_us

    def aim(self, unit: str, itl_ms: float | None) -> None:
        """Take a unit's objective for the time between two tokens, of 99 of 100; None: none."""
        self._scheduler.aim(unit, None if itl_ms is None else itl_ms * 1000)

    def submit(self, request: Generate | Embed, unit: str = "", adapter: str = "") -> None:
        """Take a unit's request in.

        Args:
            request: which.
            unit: whose.
            adapter: digest of the set of adapters that computes it, which the engine has loaded;
                empty: the model alone.

        Raises:
            RequestRefused: it wants vectors, its prompt cannot be rendered or is too long, its
                id is in use, or too many wait already. Nothing of it is kept.
        """
        if isinstance(request, Embed):
            raise RequestRefused(
                "wrong_endpoint",
                "this unit's model generates text and makes no vectors; call /v1/chat/completions",
            )
        if request.request_id in self._requests:
            raise RequestRefused(
                "duplicate_request", f"request id {request.request_id!r} is in use; choose another"
            )
        waiting = len(self._requests) - self._engine.shape.sequences
        if waiting >= self._rules.queue_limit:
            raise RequestRefused(
                "overloaded",
                f"{waiting} requests wait for this instance already; try again later",
                retryable=True,
            )
        taken = self._prepare(request, unit, adapter)
        self._requests[taken.name] = taken
        if not self._resume(taken):
            self._scheduler.add(taken)

    def _prepare(self, request: Generate, unit: str, adapter: str) -> RunningRequest:
        longest = self._engine.shape.sequence_tokens
        try:
            prompt = prompt_tokens(
                self._model, request.prompt, longest, self._rules.rendering, self._tokenized
            )
        except SitsError as error:
            raise RequestRefused(error.code, str(error)) from error
        if not prompt:
            raise RequestRefused("invalid_prompt", "the prompt is empty; give at least one token")
        room = longest - len(prompt)
        limit = room if request.max_tokens is None else min(room, request.max_tokens)
        try:
            sampler = self._engine.make_sampler(request.sampling, request.accepted)
        except EngineError as error:
            raise RequestRefused("invalid_request", str(error)) from error
        now_us = self._now_us()
        deadline_us = None if request.timeout_ms is None else now_us + request.timeout_ms * 1000
        return RunningRequest(request, unit, prompt, limit, now_us, sampler, deadline_us, adapter)

    def _resume(self, taken: RunningRequest) -> bool:
        """Go on behind the tokens that the client has; return whether they were all."""
        accepted = taken.request.accepted
        if not accepted:
            return False
        for token in accepted:
            taken.text.feed(self._model.token_bytes(token))
        taken.tokens += accepted
        if not taken.text.stopped and taken.generated_tokens < taken.limit_tokens:
            return False
        # Only the end itself had not arrived: what was kept back came with the last piece.
        reason = FinishReason.STOP if taken.text.stopped else FinishReason.LENGTH
        self._told.append(Finished(taken.name, reason, taken.usage()))
        self._forget(taken)
        return True

    def cancel(self, request_id: str) -> None:
        """Forget a request; its sequence is free at once. An unknown id is no error."""
        request = self._requests.get(request_id)
        if request is not None:
            self._end(request)

    def step(self) -> list[FromWorker]:
        """Run one engine step and return what it brought.

        When the engine fails, the requests of that step fail and the others go on.
        """
        events, self._told = self._told, []
        began_us = self._now_us()
        events += self._expire(began_us)
        threads = self._rules.threads()
        batch = self._scheduler.plan(threads)
        if not batch:
            return events
        feeds = [feed for _, feed in batch]
        try:
            sampled = iter(self._engine.step(feeds, threads))
        except EngineError as error:
            return events + [self._fail(request, error) for request, _ in batch]
        now_us = self._now_us()
        self._scheduler.ran(batch, now_us - began_us, threads)
        for request, feed in batch:
            if feed.sampler is not None:
                events += self._accept(request, next(sampled), now_us)
        return events

    def _expire(self, now_us: int) -> Iterator[FromWorker]:
        """End what has passed its deadline, wherever it is."""
        for request in list(self._requests.values()):
            if request.deadline_us is not None and now_us >= request.deadline_us:
                took_ms = request.request.timeout_ms
                tokens = request.generated_tokens
                self._end(request)
                message = (
                    f"the answer had {tokens} tokens at its deadline, {took_ms} ms after it came"
                )
                yield Failed(request.name, "deadline_exceeded", f"{message}; give it more time")

    def _accept(
        self, request: RunningRequest, sampled: Sampled, now_us: int
    ) -> Iterator[FromWorker]:
        """Add a sampled token to an answer and return the events that follow from it."""
        token = sampled.token
        if self._model.is_end(token):
            yield from self._finish(request, "", (), FinishReason.STOP, now_us)
            return
        request.tokens.append(token)
        text = request.text.feed(self._model.token_bytes(token))
        logprobs = self._logprobs(sampled)
        done = request.generated_tokens >= request.limit_tokens
        if request.text.stopped or done:
            yield from self._finish(request, text, (token,), FinishReason.LENGTH, now_us, logprobs)
            return
        yield Emitted(request.name, request.make_piece(text, (token,), now_us, logprobs))

    def _logprobs(self, sampled: Sampled) -> tuple[TokenLogprob, ...]:
        if sampled.logprob is None:
            return ()
        text = self._model.token_bytes
        top = tuple((text(token), logprob) for token, logprob in sampled.top)
        return (TokenLogprob(sampled.token, text(sampled.token), sampled.logprob, top),)

    def _finish(
        self,
        request: RunningRequest,
        text: str,
        tokens: tuple[int, ...],
        reason: FinishReason,
        now_us: int,
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> Iterator[FromWorker]:
        text += request.text.finish()
        if request.text.stopped:
            reason = FinishReason.STOP
        if text or tokens:
            yield Emitted(request.name, request.make_piece(text, tokens, now_us, logprobs))
        yield Finished(request.name, reason, request.usage())
        self._end(request)

    def _fail(self, request: RunningRequest, error: EngineError) -> Failed:
        self._end(request, keep=False)
        return Failed(request.name, error.code, str(error))

    def _end(self, request: RunningRequest, *, keep: bool = True) -> None:
        self._scheduler.drop(request)
        if request.entry is not None:
            self._pool.end(request.entry, keep=keep)
            request.entry = None
        self._forget(request)

    def _forget(self, request: RunningRequest) -> None:
        del self._requests[request.name]
        request.sampler.close()
