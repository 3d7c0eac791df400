"""One instance: a socket for gateways, a batcher, and the loop between them.

Invariants: between two engine steps every socket is drained, so that a cancel acts within one
step; a gateway that goes away cancels all that it asked for; an instance that drains takes
nothing new and says so, so that the gateway may ask another, and hands over what it has made.
"""

import select
import time
from collections.abc import Callable

from sits.runtime.batch import RequestRefused
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._runner import AnyBatcher
from sits.wire import (
    Cancel,
    Embed,
    Embedded,
    Emitted,
    Failed,
    FrameSocket,
    FromWorker,
    Generate,
    ToWorker,
    accept_nowait,
    listen,
)

Link = FrameSocket[ToWorker]

# A gateway that reads at all takes what is there in less.
_HAND_OVER_S = 0.002


def monotonic_us() -> int:
    """Return a monotonic clock's microseconds."""
    return time.monotonic_ns() // 1000


class WorkerServer:
    """Serves one instance on `endpoint`, within a reactor that its owner turns.

    Args:
        endpoint: path of the unix socket to listen on.
        now_us: a monotonic clock, in microseconds.
    """

    def __init__(
        self,
        reactor: Reactor,
        batcher: AnyBatcher,
        endpoint: str,
        now_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self._reactor = reactor
        self._batcher = batcher
        self._now_us = now_us
        self._listener = listen(endpoint)
        self._owners: dict[str, Link] = {}
        self._links: set[Link] = set()
        self._drain_until_us: int | None = None
        self.stopped = False
        reactor.watch(self._listener, self._accept)

    def wait_s(self) -> float | None:
        """Return how long the reactor may wait before the next `step`; None: until a message."""
        if self._batcher.busy or self.stopped:
            return 0.0
        if self._drain_until_us is not None:
            return max(0.0, (self._drain_until_us - self._now_us()) / 1e6)
        return None

    def step(self) -> None:
        """Run one engine step, if there is work, and send what it brought."""
        if self._batcher.busy:
            events = self._batcher.step()
            for event in events:
                self._send(event)
            if any(isinstance(event, Embedded) for event in events):
                self._hand_over()
        if self._drain_until_us is not None:
            self._drain()

    def drain(self, seconds: float) -> None:
        """Take no new requests; end when the running ones have, or after `seconds`."""
        self._drain_until_us = self._now_us() + int(seconds * 1e6)

    def _drain(self) -> None:
        over = self._drain_until_us is not None and self._now_us() >= self._drain_until_us
        unsent = any(link.wants_write for link in self._links)
        if (self._batcher.busy or unsent) and not over:
            return
        for request_id in self._batcher.request_ids:
            self._batcher.cancel(request_id)
            message = "the instance was stopped before the answer was whole; ask again"
            self._send(Failed(request_id, "instance_lost", message, retryable=True))
        self.close()

    def close(self) -> None:
        """Close every socket. What was running is cancelled."""
        self.stopped = True
        self._reactor.forget(self._listener)
        for link in list(self._links):
            self._drop(link)

    def _accept(self) -> None:
        sock = accept_nowait(self._listener)
        if sock is None:
            return
        link: Link = FrameSocket(sock, ToWorker)
        self._links.add(link)
        self._reactor.watch(link, lambda: self._receive(link))

    def _receive(self, link: Link) -> None:
        link.flush_nowait()
        for message in link.receive_nowait():
            if isinstance(message, Cancel):
                self._cancel(link, message)
            else:
                self._submit(link, message)
        self._settle(link)

    def _submit(self, link: Link, request: Generate | Embed) -> None:
        if self._drain_until_us is not None:
            message = "this instance takes no new requests, it is being stopped; ask another"
            link.send_nowait(Failed(request.request_id, "draining", message, retryable=True))
            return
        try:
            self._batcher.submit(request)
        except RequestRefused as error:
            link.send_nowait(Failed(request.request_id, error.reason, str(error), error.may_retry))
        else:
            self._owners[request.request_id] = link

    def _cancel(self, link: Link, cancel: Cancel) -> None:
        if self._owners.get(cancel.request_id) is link:
            self._batcher.cancel(cancel.request_id)
            del self._owners[cancel.request_id]

    def _send(self, event: FromWorker) -> None:
        link = self._owners.get(event.request_id)
        if link is None:
            return
        if not isinstance(event, Emitted):
            del self._owners[event.request_id]
        link.send_nowait(event)
        self._settle(link)

    def _hand_over(self) -> None:
        """Give who reads the time to take vectors: megabytes, where a socket holds some 200 KB.

        Otherwise each step of the engine would let through only as much as a socket holds.
        """
        while waiting := [link for link in self._links if link.wants_write]:
            ready = select.select([], waiting, [], _HAND_OVER_S)[1]
            if not ready:
                return
            for link in ready:
                link.flush_nowait()
                self._settle(link)

    def _settle(self, link: Link) -> None:
        """Drop a link that has closed; else wait for room when bytes are left over."""
        if link.closed:
            self._drop(link)
        else:
            self._reactor.want_write(link, link.wants_write)

    def _drop(self, link: Link) -> None:
        self._reactor.forget(link)
        self._links.discard(link)
        for request_id in [name for name, owner in self._owners.items() if owner is link]:
            self._batcher.cancel(request_id)
            del self._owners[request_id]
