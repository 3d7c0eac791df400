"""A request over an instance's endpoints, in their order, until one answers.

Invariants: the next endpoint is tried only as long as nothing of an answer was given out, and
for faults that are the endpoint's own; what the caller did wrong is told at once. After the
first piece a fault is `endpoint_lost`: whoever still holds the pieces back may ask again. An
endpoint without its key is passed over, and its key looked for again with each request.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import anyio

from sits._errors import SitsError
from sits.runtime.remote._board import EndpointBoard
from sits.runtime.remote._chat import ChatAnswer, chat_body
from sits.runtime.remote._embeddings import (
    body_limit_bytes,
    embeddings_body,
    read_embeddings,
    too_long,
)
from sits.runtime.remote._errors import CallerFault, EndpointDown
from sits.runtime.remote._http import Endpoint, Patience, Silence, use_up
from sits.runtime.remote._rendering import render
from sits.runtime.remote._sse import EventReader
from sits.wire import Embed, Embedded, Failed, Finished, FromWorker, Generate, Message

# Processes that render one unit's template at once.
_RENDERERS = 2

Emit = Callable[[str], None]


class _Failure(Exception):
    """Ends a request with what its gateway is told."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.code)
        self.failed = failed


class Caller:
    """Answers requests from endpoints elsewhere.

    Args:
        endpoints: in the order in which they are tried.
        patience: how long each may take.
        whose: the words `tenant=… unit=…`, for lines of the log.
        now_s: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        patience: Patience,
        whose: str = "",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.whose = whose
        self._endpoints = endpoints
        self._patience = patience
        self._now_s = now_s
        self._renderers = anyio.CapacityLimiter(_RENDERERS)
        self._board = EndpointBoard([endpoint.remote for endpoint in endpoints], whose)

    def look_for_keys(self) -> None:
        """Read the keys that are not there yet; endpoints without theirs are left out."""
        now_s = self._now_s()
        for place, endpoint in enumerate(self._endpoints):
            self._board.note_key(place, endpoint.look_for_key(), now_s)

    async def answer(self, request: Generate | Embed, emit: Emit) -> FromWorker:
        """Answer one request.

        Cancelling closes the connection to the endpoint at once.

        Args:
            request: for text or for vectors.
            emit: takes each piece of text.

        Returns:
            The answer's end, or why there is none.
        """
        try:
            if isinstance(request, Embed):
                return await self._over_endpoints(
                    request, lambda endpoint, silence: _embed(endpoint, request, silence)
                )
            return await self._generate(request, emit)
        except _Failure as failure:
            return failure.failed
        except CallerFault as fault:
            return Failed(request.request_id, fault.reason, str(fault))

    async def _generate(self, request: Generate, emit: Emit) -> FromWorker:
        try:
            messages = await render(request.prompt, self._renderers)
        except SitsError as error:
            return Failed(request.request_id, error.code, str(error))

        def call(endpoint: Endpoint, silence: Silence) -> Awaitable[Finished]:
            return _stream(endpoint, request, messages, emit, silence)

        return await self._over_endpoints(request, call)

    async def _over_endpoints(
        self,
        request: Generate | Embed,
        call: Callable[[Endpoint, Silence], Awaitable[Finished | Embedded]],
    ) -> FromWorker:
        self.look_for_keys()
        downs: list[EndpointDown] = []
        for place in self._board.order(self._now_s()):
            silence, began_s = Silence(self._patience), self._now_s()
            try:
                answer = await call(self._endpoints[place], silence)
            except EndpointDown as down:
                self._board.failed(place, down, began_s=began_s, now_s=self._now_s())
                if silence.begun:
                    self._give_up_amid(request, place, down)
                downs.append(down)
            else:
                self._board.succeeded(place)
                return answer
        return self._give_up(request, downs)

    def _give_up_amid(self, request: Generate | Embed, place: int, down: EndpointDown) -> NoReturn:
        url = self._endpoints[place].remote.url
        message = f"the endpoint {url} broke off in the middle of the answer: {down}; ask again"
        raise _Failure(Failed(request.request_id, "endpoint_lost", message, retryable=True))

    def _give_up(self, request: Generate | Embed, downs: Sequence[EndpointDown]) -> Failed:
        if self._board.lacks_all_keys():
            message = f"no endpoint has its key: {self._board.reasons()}"
            return Failed(request.request_id, "secret_missing", message)
        throttled = bool(downs) and all(down.throttled for down in downs)
        begin = "every endpoint has too much to do" if throttled else "no endpoint could answer"
        return Failed(
            request.request_id,
            "overloaded" if throttled else "endpoint_failed",
            f"{begin}: {self._board.reasons()}; try again later",
            retryable=True,
        )


async def _stream(
    endpoint: Endpoint,
    request: Generate,
    messages: Sequence[Message],
    emit: Emit,
    silence: Silence,
) -> Finished:
    answer, reader = ChatAnswer(messages), EventReader()
    body = chat_body(request, messages, endpoint.remote.model)
    async with (
        endpoint.post("/chat/completions", body, silence, request.hops) as response,
        contextlib.aclosing(endpoint.pieces(response, silence)) as pieces,
    ):
        if response.headers.get("content-type", "").startswith(("application/json", "text/html")):
            raise EndpointDown("it answered without a stream")
        async for piece in pieces:
            try:
                for data in reader.feed(piece):
                    if text := answer.take(data):
                        silence.begun = True
                        emit(text)
                    if answer.done:
                        await use_up(pieces)
                        return Finished(request.request_id, answer.reason, answer.usage())
            except (EndpointDown, CallerFault) as error:
                raise endpoint.explain(error) from error
    raise EndpointDown("the connection ended before the answer did")


async def _embed(endpoint: Endpoint, request: Embed, silence: Silence) -> Embedded:
    body = embeddings_body(request, endpoint.remote.model)
    async with endpoint.post("/embeddings", body, silence, request.hops) as response:
        answer = await endpoint.whole(response, silence, body_limit_bytes(request))
    if answer is None:
        raise too_long(request)
    return read_embeddings(request, answer)
