"""Carries out a job: a place on an instance, the answer's pieces, each passed on as it comes.

Invariants:

- Nothing is sent before the worker's first message, so that a failure before the first piece
  is a proper HTTP error, and one after it an event that no client takes for an end.
- As long as nothing has been sent (until the first piece of a stream, until the end of an
  answer in one document) a lost instance costs only time: the request goes to another, from
  its beginning, within its one hold deadline, at most `_MAX_ATTEMPTS` times (a request that
  kills what it runs on must not be handed round for ever).
- However this ends (the client leaves, a deadline passes, a bug), the place is given back and
  the worker is told to stop.
"""

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from sits.gateway._activator import Activator, Lease
from sits.gateway._disconnect import while_connected
from sits.gateway._edge import Receive, Scope, Send, send_document
from sits.gateway._errors import RETRY_ELSEWHERE, ApiError, from_failure
from sits.gateway._exchange import EXCHANGE, Exchange
from sits.gateway._job import AnyJob, EmbeddingJob, Facts, Renderer
from sits.gateway._render_embeddings import render_embeddings
from sits.gateway._settings import Settings
from sits.wire import Embedded, Emitted, Failed, Finished, FromWorker, Piece, send_piece

_MAX_ATTEMPTS = 3

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class _Client:
    """Where an answer goes."""

    scope: Scope
    send: Send
    exchange: Exchange


@dataclass
class _Tries:
    """How a request may still be placed: `left` times, until `deadline`."""

    arrived: int
    deadline: float
    left: int = _MAX_ATTEMPTS

    def can_help(self, error: ApiError) -> bool:
        """Whether another instance may be able to do what failed on this one."""
        return self.left > 0 and error.error_code in RETRY_ELSEWHERE


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
        self._activator = activator
        self._settings = settings
        self._wall = wall
        # A client may use an id twice; a worker must not see it twice.
        self._suffix = secrets.token_hex(4)
        self._numbers = itertools.count()

    async def answer(self, scope: Scope, receive: Receive, send: Send, job: AnyJob) -> None:
        """Answer one request; return early, with nothing left behind, if the client leaves.

        Raises:
            ApiError: it failed before anything was sent.
        """
        exchange: Exchange = scope[EXCHANGE]
        exchange.unit = job.unit.name
        await while_connected(receive, lambda: self._answer(_Client(scope, send, exchange), job))

    async def _answer(self, client: _Client, job: AnyJob) -> None:
        tries = _Tries(self._activator.links_seen, anyio.current_time() + job.unit.hold_s)
        created_s = int(self._wall())
        while True:
            lease, first = await self._begin(client.exchange, job, tries)
            try:
                return await self._respond(client, job, created_s, lease, first)
            except ApiError as error:
                # A stream tells its own errors, so nothing has been sent.
                if not tries.can_help(error):
                    raise
            finally:
                lease.release()

    async def _respond(
        self, client: _Client, job: AnyJob, created_s: int, lease: Lease, first: FromWorker
    ) -> None:
        exchange, unit = client.exchange, job.unit
        exchange.tier = lease.tier
        headers = [
            (b"x-sits-tier", lease.tier.encode("ascii")),
            (b"x-sits-revision", unit.revision.encode("latin-1", "replace")),
        ]
        if isinstance(job, EmbeddingJob):
            await self._vectors(client, first, job, headers)
            return
        renderer = job.make_renderer(
            Facts(exchange.request_id, created_s, unit.name, unit.revision, lease.tier)
        )
        respond = self._stream if job.stream else self._whole
        await respond(client, lease, first, renderer, headers)

    async def _begin(
        self, exchange: Exchange, job: AnyJob, tries: _Tries
    ) -> tuple[Lease, FromWorker]:
        """Return a place and the first message from it, from as many instances as it takes."""
        key = (job.unit.tenant, job.unit.name)
        settings = self._settings
        limit_s = settings.total_s if isinstance(job, EmbeddingJob) else settings.first_byte_s
        while True:
            again = tries.left < _MAX_ATTEMPTS
            tries.left -= 1
            wire_id = f"{exchange.request_id}~{self._suffix}-{next(self._numbers)}"
            lease = await self._activator.acquire(
                key, wire_id, arrived=tries.arrived, deadline=tries.deadline, again=again
            )
            message: FromWorker | None = None
            try:
                lease.start_nowait(job.order(wire_id, exchange.hops))
                with anyio.move_on_after(limit_s):
                    message = await lease.receive()
            finally:
                if not isinstance(message, Emitted | Finished | Embedded):
                    lease.release()
            if message is None:
                raise _timeout("the answer's beginning", limit_s)
            if not isinstance(message, Failed):
                exchange.first_piece_s, exchange.tokens = time.monotonic(), 0
                return lease, message
            error = from_failure(message)
            if not tries.can_help(error):
                raise error

    async def _stream(
        self,
        client: _Client,
        lease: Lease,
        first: FromWorker,
        renderer: Renderer,
        headers: Headers,
    ) -> None:
        scope, send = client.scope, client.send
        headers += [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def pass_on(piece: Piece) -> None:
            body = renderer.piece(piece)
            if body:
                await send_piece(scope, send, body, piece)

        try:
            end = await self._follow(client.exchange, lease, first, pass_on)
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
        lease: Lease,
        first: FromWorker,
        renderer: Renderer,
        headers: Headers,
    ) -> None:
        texts: list[str] = []

        async def keep(piece: Piece) -> None:
            texts.append(piece.text)

        end = await self._follow(client.exchange, lease, first, keep)
        body = renderer.whole("".join(texts), end.reason, end.usage)
        headers.append((b"content-type", b"application/json"))
        await send_document(client.send, 200, body, headers)

    async def _vectors(
        self, client: _Client, answer: FromWorker, job: EmbeddingJob, headers: Headers
    ) -> None:
        """Answer with the vectors, as one document."""
        if not isinstance(answer, Embedded) or len(answer.vectors) != len(job.inputs):
            raise ApiError(
                500,
                "engine_error",
                f"the instance did not answer {len(job.inputs)} inputs with as many vectors; send "
                "the request again",
            )
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

    async def _follow(
        self,
        exchange: Exchange,
        lease: Lease,
        first: FromWorker,
        take: Callable[[Piece], Awaitable[None]],
    ) -> Finished:
        """Hand each piece to `take`, in order, and return the answer's end.

        Raises:
            ApiError: the answer failed, lost a piece, or took too long.
        """
        settings, message, count = self._settings, first, 0
        last = anyio.current_time() + settings.total_s
        # One scope whose deadline moves: a new one for each piece would cost more than the rest.
        with anyio.CancelScope() as limit:
            while isinstance(message, Emitted):
                limit.deadline = min(anyio.current_time() + settings.idle_s, last)
                piece = message.piece
                if piece.seq != count:
                    raise _lost_piece(count, piece.seq)
                count += 1
                exchange.tokens += len(piece.tokens)
                await take(piece)
                message = await lease.receive()
        if isinstance(message, Finished):
            exchange.tokens = message.usage.completion_tokens
            return message
        if isinstance(message, Failed):
            raise from_failure(message)
        if anyio.current_time() >= last:
            raise _timeout("the whole answer", settings.total_s)
        raise _timeout("the next piece", settings.idle_s)


def _timeout(what: str, limit_s: float) -> ApiError:
    return ApiError(504, "timeout", f"{what} was not there after {limit_s:g} s; try again")


def _lost_piece(expected: int, given: int) -> ApiError:
    return ApiError(
        500,
        "engine_error",
        f"the instance sent piece {given} where piece {expected} was due; the answer is not whole: "
        "send the request again",
    )
