"""Which tokens go into each step, and what becomes of the sampled ones.

Invariants: a request is queued, running, or forgotten, never two of them; a request that has
ended holds no sequence; decodes are in every step, prompts share what room is left, first come
first served; a request that runs alone is fed its prompt in pieces of `batch_tokens`, so that
its greedy text is that of any other llama.cpp front end with the same batch size.
"""

from collections import deque
from collections.abc import Callable

from sits._errors import SitsError
from sits.runtime.batch._prompt import prompt_tokens
from sits.runtime.batch._refused import RequestRefused
from sits.runtime.batch._request import RunningRequest
from sits.runtime.engine import Engine, EngineError, Feed, Model
from sits.sandbox import Limits
from sits.wire import Embed, Emitted, Failed, Finished, FinishReason, FromWorker, Generate

_DEFAULT_LIMITS = Limits()


class Batcher:
    """Runs the requests of one instance on one engine.

    Args:
        now_us: a monotonic clock, in microseconds.
        queue_limit: how many requests may wait for a sequence; the next is refused.
        limits: for the rendering of one prompt.
    """

    def __init__(
        self,
        model: Model,
        engine: Engine,
        now_us: Callable[[], int],
        *,
        queue_limit: int = 64,
        limits: Limits = _DEFAULT_LIMITS,
    ) -> None:
        self._model = model
        self._engine = engine
        self._now_us = now_us
        self._queue_limit = queue_limit
        self._limits = limits
        self._queue: deque[RunningRequest] = deque()
        self._running: dict[str, RunningRequest] = {}
        self._free = list(range(engine.shape.sequences - 1, -1, -1))

    @property
    def busy(self) -> bool:
        """Whether there is anything to step."""
        return bool(self._running or self._queue)

    @property
    def request_ids(self) -> frozenset[str]:
        """The ids of all requests here, queued or running."""
        return frozenset(self._running) | {r.request.request_id for r in self._queue}

    def submit(self, request: Generate | Embed) -> None:
        """Take a request in.

        Raises:
            RequestRefused: it wants vectors, its prompt cannot be rendered or is too long, its
                id is in use, or too many wait already. Nothing of it is kept.
        """
        if isinstance(request, Embed):
            raise RequestRefused(
                "wrong_endpoint",
                "this unit's model generates text and makes no vectors; call /v1/chat/completions",
            )
        if request.request_id in self.request_ids:
            raise RequestRefused(
                "duplicate_request", f"request id {request.request_id!r} is in use; choose another"
            )
        waiting = len(self._queue) - len(self._free)
        if waiting >= self._queue_limit:
            raise RequestRefused(
                "overloaded",
                f"{waiting} requests wait for this instance already; try again later",
                retryable=True,
            )
        longest = self._engine.shape.sequence_tokens
        try:
            prompt = prompt_tokens(self._model, request.prompt, longest, self._limits)
        except SitsError as error:
            raise RequestRefused(error.code, str(error)) from error
        if not prompt:
            raise RequestRefused("invalid_prompt", "the prompt is empty; give at least one token")
        try:
            sampler = self._engine.make_sampler(request.sampling, request.accepted)
        except EngineError as error:
            raise RequestRefused("invalid_request", str(error)) from error
        room = longest - len(prompt)
        limit = room if request.max_tokens is None else min(room, request.max_tokens)
        self._queue.append(RunningRequest(request, prompt, limit, self._now_us(), sampler))

    def cancel(self, request_id: str) -> None:
        """Forget a request; its sequence is free at once. An unknown id is no error."""
        running = self._running.get(request_id)
        if running is not None:
            self._end(running)
            return
        for queued in [r for r in self._queue if r.request.request_id == request_id]:
            self._queue.remove(queued)
            queued.sampler.close()

    def step(self) -> list[FromWorker]:
        """Run one engine step and return what it brought.

        When the engine fails, the requests of that step fail and the others go on.
        """
        self._admit()
        feeds, requests = self._plan()
        if not feeds:
            return []
        try:
            sampled = iter(self._engine.step(feeds))
        except EngineError as error:
            return [self._fail(request, error) for request in requests]
        now_us = self._now_us()
        events: list[FromWorker] = []
        for feed, request in zip(feeds, requests, strict=True):
            request.fed_tokens += len(feed.tokens)
            if feed.sampler is not None:
                events += self._accept(request, next(sampled).token, now_us)
        return events

    def _admit(self) -> None:
        while self._queue and self._free:
            request = self._queue.popleft()
            request.sequence = self._free.pop()
            self._engine.open(request.sequence)
            self._running[request.request.request_id] = request

    def _plan(self) -> tuple[list[Feed], list[RunningRequest]]:
        """Return the feeds of the next step with their requests: decodes first, then prompts."""
        room = self._engine.shape.batch_tokens
        feeds: list[Feed] = []
        requests: list[RunningRequest] = []
        for request in sorted(self._running.values(), key=lambda r: r.prefilling):
            if room == 0:
                break
            feed = request.next_feed(room)
            room -= len(feed.tokens)
            feeds.append(feed)
            requests.append(request)
        return feeds, requests

    def _accept(self, request: RunningRequest, token: int, now_us: int) -> list[FromWorker]:
        """Add a sampled token to an answer and return the events that follow from it."""
        name = request.request.request_id
        if self._model.is_end(token):
            return self._finish(request, "", (), FinishReason.STOP, now_us)
        request.generated_tokens += 1
        text = request.text.feed(self._model.token_bytes(token))
        if request.text.stopped:
            return self._finish(request, text, (token,), FinishReason.STOP, now_us)
        if request.generated_tokens >= request.limit_tokens:
            return self._finish(request, text, (token,), FinishReason.LENGTH, now_us)
        request.next_token = token
        return [Emitted(name, request.make_piece(text, (token,), now_us))]

    def _finish(
        self,
        request: RunningRequest,
        text: str,
        tokens: tuple[int, ...],
        reason: FinishReason,
        now_us: int,
    ) -> list[FromWorker]:
        name = request.request.request_id
        text += request.text.finish()
        if request.text.stopped:
            reason = FinishReason.STOP
        events: list[FromWorker] = []
        if text or tokens:
            events.append(Emitted(name, request.make_piece(text, tokens, now_us)))
        events.append(Finished(name, reason, request.usage()))
        self._end(request)
        return events

    def _fail(self, request: RunningRequest, error: EngineError) -> Failed:
        self._end(request)
        return Failed(request.request.request_id, error.code, str(error))

    def _end(self, request: RunningRequest) -> None:
        del self._running[request.request.request_id]
        self._engine.close(request.sequence)
        request.sampler.close()
        self._free.append(request.sequence)
