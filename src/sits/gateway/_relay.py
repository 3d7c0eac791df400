"""Answers jobs over HTTP: the headers, an answer's pieces, each passed on as it comes, its end.

Invariants:

- Nothing is sent before the worker's first message, so that a failure before the first piece
  is a proper HTTP error, and one after it an event that no client takes for an end.
- However this ends (the client leaves, a deadline passes, a bug), the place is given back and
  the worker is told to stop. How an answer is made, and lost instances made good, is `_making`.
"""

import itertools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from sits.gateway._activator import Activator
from sits.gateway._deadline import Deadline
from sits.gateway._disconnect import while_connected
from sits.gateway._edge import Receive, Scope, Send, send_document
from sits.gateway._errors import ApiError
from sits.gateway._exchange import EXCHANGE, Exchange
from sits.gateway._job import AnyJob, EmbeddingJob, Facts, Renderer
from sits.gateway._making import Making, Means, Message
from sits.gateway._render_embeddings import render_embeddings
from sits.gateway._settings import Settings
from sits.wire import Embedded, Emitted, Piece, Tier, TokenLogprob, send_piece, try_id

Headers = list[tuple[bytes, bytes]]

_NO_DEADLINE = Deadline()


@dataclass(frozen=True)
class _Client:
    """Where an answer goes."""

    scope: Scope
    send: Send
    exchange: Exchange


@dataclass(frozen=True)
class _Passed:
    """Sends each piece on as it comes."""

    client: _Client
    renderer: Renderer

    async def take(self, piece: Piece) -> None:
        body = self.renderer.piece(piece)
        if body:
            await send_piece(self.client.scope, self.client.send, body, piece)

    def forget(self) -> bool:
        return False


@dataclass(frozen=True)
class _Kept:
    """Keeps the pieces of an answer that is sent as one document."""

    texts: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)

    async def take(self, piece: Piece) -> None:
        self.texts.append(piece.text)
        self.logprobs.extend(piece.logprobs)

    def forget(self) -> bool:
        self.texts.clear()
        self.logprobs.clear()
        return True


class Relay:
    """Answers jobs.

    Args:
        activator: gives places on instances.
        settings: the time limits.
        wall: the wall clock, in Unix seconds.
    """

    def __init__(
        self, activator: Activator, settings: Settings, wall: Callable[[], float] = time.time
    ) -> None:
        # A client may use an id twice; a worker must not see it twice.
        suffix, numbers = secrets.token_hex(4), itertools.count()
        self._means = Means(
            activator, settings, lambda own: try_id(own, f"{suffix}-{next(numbers)}")
        )
        self._settings = settings
        self._wall = wall

    async def answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        job: AnyJob,
        deadline: Deadline = _NO_DEADLINE,
    ) -> None:
        """Answer one request; return early, with nothing left behind, if the client leaves.

        Raises:
            ApiError: it failed before anything was sent.
        """
        exchange: Exchange = scope[EXCHANGE]
        client = _Client(scope, send, exchange)
        await while_connected(receive, lambda: self._answer(client, job, deadline))

    async def _answer(self, client: _Client, job: AnyJob, deadline: Deadline) -> None:
        making = Making(self._means, job, client.exchange, deadline)
        created_s = int(self._wall())
        try:
            await self._respond(client, job, created_s, making)
        finally:
            making.release()

    async def _respond(self, client: _Client, job: AnyJob, created_s: int, making: Making) -> None:
        exchange, unit = client.exchange, job.unit
        first = await making.begin()
        tier = Tier(exchange.tier)
        headers = [
            (b"x-sits-tier", tier.encode("ascii")),
            (b"x-sits-revision", unit.revision.encode("latin-1", "replace")),
        ]
        if isinstance(job, EmbeddingJob):
            await self._vectors(client, first, job, headers)
            return
        renderer = job.make_renderer(
            Facts(exchange.request_id, created_s, unit.name, unit.revision, tier)
        )
        respond = self._stream if job.stream else self._whole
        await respond(client, making, first, renderer, headers)

    async def _stream(
        self,
        client: _Client,
        making: Making,
        first: Message,
        renderer: Renderer,
        headers: Headers,
    ) -> None:
        send = client.send
        headers += [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            end = await making.follow(first, _Passed(client, renderer))
            ending = renderer.closing(end.reason, end.usage)
            if not isinstance(first, Emitted):
                ending = renderer.opening() + ending
        except ApiError as error:
            client.exchange.error = error.error_code
            ending = error.event
        # A client that does not take this does not get it: the place was given back.
        with anyio.move_on_after(self._settings.idle_s):
            await send({"type": "http.response.body", "body": ending, "more_body": False})

    async def _whole(
        self,
        client: _Client,
        making: Making,
        first: Message,
        renderer: Renderer,
        headers: Headers,
    ) -> None:
        kept = _Kept()
        end = await making.follow(first, kept)
        body = renderer.whole("".join(kept.texts), end.reason, end.usage, kept.logprobs)
        headers.append((b"content-type", b"application/json"))
        await send_document(client.send, 200, body, headers)

    async def _vectors(
        self, client: _Client, answer: Message, job: EmbeddingJob, headers: Headers
    ) -> None:
        """Answer with the vectors, as one document."""
        if not isinstance(answer, Embedded) or len(answer.vectors) != len(job.inputs):
            raise ApiError(
                500,
                "engine_error",
                f"the instance did not answer {len(job.inputs)} inputs with as many vectors; send "
                "the request again",
            )
        client.exchange.usage = answer.usage
        client.exchange.tokens = answer.usage.prompt_tokens
        parts: list[bytes] = []
        for part in render_embeddings(
            answer.vectors, job.unit.name, answer.usage, as_base64=job.as_base64
        ):
            parts.append(part)
            await anyio.lowlevel.checkpoint()
        headers.append((b"content-type", b"application/json"))
        headers.append((b"content-length", str(sum(map(len, parts))).encode("ascii")))
        await client.send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in parts:
            # Megabytes wait for the client to read; its place was given back before. One that
            # reads nothing is left with what it has: the server closes such a connection.
            with anyio.move_on_after(self._settings.idle_s) as limit:
                await client.send({"type": "http.response.body", "body": part, "more_body": True})
            if limit.cancelled_caught:
                client.exchange.error = "client_stalled"
                return
        await client.send({"type": "http.response.body", "body": b"", "more_body": False})
