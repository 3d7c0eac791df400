"""One instance: a socket for gateways, and the requests that run on it.

Invariants, the same as a worker's: a cancel acts at once and nothing more is said of its
request; a gateway that goes away cancels all that it asked for; an instance that drains takes
nothing new and says so, so that the gateway may ask another.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc

from sits.runtime.remote._caller import Caller
from sits.runtime.remote._outbox import Outbox
from sits.wire import (
    Cancel,
    Channel,
    Embed,
    Emitted,
    Failed,
    FromWorker,
    Generate,
    Piece,
    Stage,
    ToWorker,
    WireError,
    serve,
)

_FLUSH_S = 1.0

_log = logging.getLogger(__name__)


def monotonic_us() -> int:
    """Return a monotonic clock's microseconds."""
    return time.monotonic_ns() // 1000


@dataclass(eq=False)
class _Link:
    """A gateway that is connected, and its requests."""

    outbox: Outbox
    tasks: anyio.abc.TaskGroup
    requests: dict[str, anyio.CancelScope] = field(default_factory=dict)


class Pieces:
    """Makes the pieces of one answer.

    Args:
        request_id: the request's.
        outbox: where they go.
        now_us: a monotonic clock, in microseconds.
    """

    def __init__(self, request_id: str, outbox: Outbox, now_us: Callable[[], int]) -> None:
        self._request_id = request_id
        self._outbox = outbox
        self._now_us = now_us
        self._marked_us = now_us()
        self._count = 0

    def emit(self, text: str) -> None:
        """Send the next piece. Its tokens are not known here: an endpoint sends text."""
        now_us = self._now_us()
        stage = Stage.DECODE if self._count else Stage.PREFILL
        piece = Piece(self._count, text, (), stage, max(0, now_us - self._marked_us))
        self._count += 1
        self._marked_us = now_us
        self._outbox.put_nowait(Emitted(self._request_id, piece))


class RemoteInstance:
    """Serves one instance on its socket.

    Args:
        caller: answers its requests.
        endpoint: path of the unix socket to listen on.
        capacity: how many requests run at once; as many again may wait.
        now_us: a monotonic clock, in microseconds.

    Attributes:
        whose: the words `tenant=… unit=…`, for lines of the log.
        started: to be set by who runs it, once it listens or cannot.
    """

    def __init__(
        self,
        caller: Caller,
        endpoint: str,
        capacity: int,
        now_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self.whose = caller.whose
        self._caller = caller
        self._endpoint = endpoint
        self._capacity = capacity
        self._now_us = now_us
        self._places = anyio.Semaphore(capacity)
        self._links: set[_Link] = set()
        self._draining = False
        self._idle = anyio.Event()
        self._scope = anyio.CancelScope()
        self.started = anyio.Event()

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until a drain is over.

        Raises:
            OSError: the socket cannot be listened on.
        """
        with self._scope:
            await serve(self._endpoint, ToWorker, self._serve, task_status=task_status)

    async def drain(self, seconds: float) -> None:
        """Take no new requests; end when the running ones have, or after `seconds`."""
        self._draining = True
        await self.started.wait()
        with anyio.move_on_after(seconds):
            while self._running:
                self._idle = anyio.Event()
                await self._idle.wait()
        message = "the instance was stopped before the answer was whole; ask again"
        for link in self._links:
            for request_id, scope in list(link.requests.items()):
                scope.cancel()
                link.outbox.put_nowait(Failed(request_id, "instance_lost", message, retryable=True))
        with anyio.move_on_after(_FLUSH_S):
            for link in list(self._links):
                await link.outbox.wait_empty()
        self._scope.cancel()

    @property
    def _running(self) -> int:
        return sum(len(link.requests) for link in self._links)

    async def _serve(self, channel: Channel[ToWorker]) -> None:
        async with anyio.create_task_group() as tasks:
            link = _Link(Outbox(tasks.cancel_scope), tasks)
            self._links.add(link)
            tasks.start_soon(link.outbox.send_all, channel)
            try:
                async for message in channel:
                    self._take(link, message)
            except WireError as error:
                _log.error("event=link_broken %s reason=%r", self.whose, str(error))
            finally:
                self._links.discard(link)
                self._note_end()
            tasks.cancel_scope.cancel()

    def _take(self, link: _Link, message: ToWorker) -> None:
        if isinstance(message, Cancel):
            scope = link.requests.pop(message.request_id, None)
            if scope is not None:
                scope.cancel()
                self._note_end()
            return
        refusal = self._refusal(link, message)
        if refusal is not None:
            link.outbox.put_nowait(refusal)
            return
        scope = link.requests[message.request_id] = anyio.CancelScope()
        link.tasks.start_soon(self._answer, link, message, scope)

    def _refusal(self, link: _Link, request: Generate | Embed) -> Failed | None:
        name = request.request_id
        if self._draining:
            message = "this instance takes no new requests, it is being stopped; ask another"
            return Failed(name, "draining", message, retryable=True)
        if name in link.requests:
            return Failed(
                name, "duplicate_request", f"request id {name!r} is in use; choose another"
            )
        running = self._running
        if running >= 2 * self._capacity:
            message = f"{running} requests are with this instance already; try again later"
            return Failed(name, "overloaded", message, retryable=True)
        return None

    async def _answer(
        self, link: _Link, request: Generate | Embed, scope: anyio.CancelScope
    ) -> None:
        pieces = Pieces(request.request_id, link.outbox, self._now_us)
        with scope:
            async with self._places:
                end = await self._end_of(request, pieces)
            # A cancelled one says nothing more, and its id may be another's by now.
            if link.requests.get(request.request_id) is scope:
                del link.requests[request.request_id]
                link.outbox.put_nowait(end)
                self._note_end()

    async def _end_of(self, request: Generate | Embed, pieces: Pieces) -> FromWorker:
        try:
            return await self._caller.answer(request, pieces.emit)
        except Exception:  # noqa: BLE001 - a task root: a fault of ours ends one request, no more
            _log.exception("event=request_failed %s id=%r", self.whose, request.request_id)
            message = "the platform failed at this request; its log has the fault"
            return Failed(request.request_id, "engine_error", message)

    def _note_end(self) -> None:
        if not self._running:
            self._idle.set()
