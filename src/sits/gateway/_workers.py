"""One link to each instance, on which all of this gateway's requests there are multiplexed.

Invariants:

- How many requests an instance runs is the number of its open answers: there is no counter
  beside them that could stay behind.
- Nothing here blocks a request: to send is to put into the link's outbox, which one task
  empties. A full outbox means a worker that does not read; the link is then lost.
- When a link is lost, every request on it ends with `instance_lost`; it is tried again, with
  backoff, while the routing table names the instance.
- An answer's queue has no bound of its own: a request makes at most one piece for each token
  of the model's context, and it is better to keep those than to stall every other request of
  the same worker for one slow client.
"""

import logging
from collections.abc import Callable

import anyio

from sits.gateway._inbox import Inbox
from sits.wire import (
    Cancel,
    Channel,
    Embed,
    Emitted,
    Failed,
    FromWorker,
    Generate,
    RoutedInstance,
    Tier,
    ToWorker,
    WireError,
    connect,
)

_OUTBOX_MESSAGES = 1024
_CONNECT_S = 2.0
_SEND_S = 10.0
_BACKOFF_S = (0.05, 2.0)
_AGAIN = "send the request again"

log = logging.getLogger(__name__)


class WorkerLink:
    """The link to one instance.

    Args:
        routed: the instance, as the routing table names it.
        number: counts links in the order in which they were first seen.
        on_change: called whenever room may have come or a count has changed.
    """

    def __init__(self, routed: RoutedInstance, number: int, on_change: Callable[[], None]) -> None:
        self.routed = routed
        self.number = number
        self._on_change = on_change
        self._retired = False
        self._draining = False
        self._lost = False
        self._answers: dict[str, Inbox[FromWorker]] = {}
        self._outbox: Inbox[ToWorker] = Inbox(_OUTBOX_MESSAGES)
        self._scope = anyio.CancelScope()
        self._connection = anyio.CancelScope()

    @property
    def accepting(self) -> bool:
        """Whether it takes new requests. True before it is connected: they wait in the outbox."""
        return not (self._retired or self._draining or self._lost)

    @property
    def running(self) -> int:
        """How many requests run here."""
        return len(self._answers)

    @property
    def capacity(self) -> int:
        """How many may."""
        return self.routed.capacity

    @property
    def tier(self) -> Tier:
        """How warm the instance's start was."""
        return self.routed.tier

    @property
    def retired(self) -> bool:
        """Whether the routing table no longer names it."""
        return self._retired

    def open_nowait(self, request_id: str) -> Inbox[FromWorker]:
        """Take a place for a request and return where its answer will arrive."""
        answer: Inbox[FromWorker] = Inbox()
        self._answers[request_id] = answer
        self._on_change()
        return answer

    def start_nowait(self, request: Generate | Embed) -> None:
        """Hand a request that has its place to the worker, as soon as that takes it."""
        # Lost since it got its place: its answer has ended, also if the link is back.
        if request.request_id in self._answers:
            self._send_nowait(request)

    def close_nowait(self, request_id: str, *, cancel: bool) -> None:
        """Give a request's place back. Idempotent.

        Args:
            request_id: as given to `open_nowait`.
            cancel: the worker has the request and should stop it.
        """
        if self._end(request_id) and cancel:
            self._send_nowait(Cancel(request_id))
        self._leave_if_done()

    def retire(self) -> None:
        """Give it no new requests; close when the last one has ended."""
        self._retired = True
        self._leave_if_done()

    def revive(self) -> None:
        """The routing table names it again."""
        self._retired = False

    def fail_all(self, code: str, message: str) -> None:
        """End every request here, towards its client and towards the worker."""
        for request_id, answer in list(self._answers.items()):
            answer.put_nowait(Failed(request_id, code, message))
            self.close_nowait(request_id, cancel=True)

    async def run(self) -> None:
        """Keep the link up until it is retired and its last request has ended."""
        backoff_s = _BACKOFF_S[0]
        with self._scope:
            while True:
                if await self._connect_once():
                    backoff_s = _BACKOFF_S[0]
                if self._retired:
                    return
                await anyio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, _BACKOFF_S[1])

    async def _connect_once(self) -> bool:
        """Serve one connection to its end; say whether there was one."""
        try:
            with anyio.fail_after(_CONNECT_S):
                channel = await connect(self.routed.endpoint, FromWorker)
        except (OSError, TimeoutError) as error:
            if not self._lost:
                log.warning(
                    "event=instance_unreachable instance=%s reason=%s",
                    self.routed.instance,
                    str(error) or f"no connection after {_CONNECT_S:g} s",
                )
            self._lose(f"the instance cannot be reached; {_AGAIN}")
            return False
        if self._lost:
            self._lost = False
            self._on_change()
        async with channel, anyio.create_task_group() as group:
            self._connection = group.cancel_scope
            group.start_soon(self._write, channel)
            try:
                async for message in channel:
                    self._dispatch(message)
            except WireError as error:
                log.error("event=link_broken instance=%s reason=%s", self.routed.instance, error)
            group.cancel_scope.cancel()
        self._lose(f"the instance ended before the answer did; {_AGAIN}")
        return True

    async def _write(self, channel: Channel[FromWorker]) -> None:
        outbox = self._outbox
        try:
            while True:
                message = await outbox.get()
                with anyio.fail_after(_SEND_S):
                    await channel.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
            self._connection.cancel()

    def _dispatch(self, message: FromWorker) -> None:
        answer = self._answers.get(message.request_id)
        if answer is None:
            # Cancelled here, and the worker did not know it yet.
            return
        if isinstance(message, Failed) and message.code == "draining":
            # Before its place is given to the next, who would be sent away too.
            self._draining = True
        answer.put_nowait(message)
        if not isinstance(message, Emitted):
            self._end(message.request_id)
            self._leave_if_done()

    def _send_nowait(self, message: ToWorker) -> None:
        if not self._lost and not self._outbox.put_nowait(message):
            self._lose(f"the instance takes no requests any more; {_AGAIN}")
            self._connection.cancel()

    def _end(self, request_id: str) -> bool:
        answer = self._answers.pop(request_id, None)
        if answer is None:
            return False
        self._on_change()
        return True

    def _lose(self, message: str) -> None:
        self._lost = True
        # What is in the old one belongs to requests that end here.
        self._outbox = Inbox(_OUTBOX_MESSAGES)
        for request_id, answer in list(self._answers.items()):
            answer.put_nowait(Failed(request_id, "instance_lost", message, retryable=True))
            self._end(request_id)
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        if self._retired and not self._answers:
            self._scope.cancel()
