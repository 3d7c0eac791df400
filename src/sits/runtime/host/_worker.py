"""Instances in one process: a socket for each, one batcher, and the loop between them.

Units of one tenant share the process, and so what was computed of their prompts. Invariants:
between two engine steps every socket is drained, so that a cancel acts within one
step; a gateway that goes away cancels all that it asked for; an instance that drains takes
nothing new and says so, so that the gateway may ask another, and hands over what it has made.
"""

import select
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from sits.runtime.batch import RequestRefused
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._runner import AnyBatcher, monotonic_us
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


@dataclass(eq=False)
class _Served:
    """One instance here."""

    name: str
    unit: str
    listener: socket.socket
    choose: Callable[[str], str]
    links: set[Link] = field(default_factory=set)
    drain_until_us: int | None = None


class WorkerServer:
    """Serves instances, within a reactor that its owner turns.

    Args:
        now_us: a monotonic clock, in microseconds.
        on_gone: is told the name of an instance that was drained and has ended.
    """

    def __init__(
        self,
        reactor: Reactor,
        batcher: AnyBatcher,
        now_us: Callable[[], int] = monotonic_us,
        on_gone: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._reactor = reactor
        self._batcher = batcher
        self._now_us = now_us
        self._on_gone = on_gone
        self._served: dict[str, _Served] = {}
        self._owners: dict[str, tuple[_Served, Link]] = {}
        self._links: set[Link] = set()

    @property
    def stopped(self) -> bool:
        """Whether there is no instance here (any more)."""
        return not self._served

    def open(
        self,
        name: str,
        unit: str,
        endpoint: str,
        choose: Callable[[str], str] = lambda _request_id: "",
    ) -> None:
        """Serve one more instance.

        Args:
            name: the instance's.
            unit: whose requests it takes.
            endpoint: path of the unix socket to listen on.
            choose: returns the digest of the adapters that a request gets, given its id.

        Raises:
            OSError: that cannot be listened on.
        """
        served = _Served(name, unit, listen(endpoint), choose)
        self._served[name] = served
        self._reactor.watch(served.listener, lambda: self._accept(served))

    def wait_s(self) -> float | None:
        """Return how long the reactor may wait before the next `step`; None: until a message."""
        if self._batcher.busy or self.stopped:
            return 0.0
        ends = [s.drain_until_us for s in self._served.values() if s.drain_until_us is not None]
        return max(0.0, (min(ends) - self._now_us()) / 1e6) if ends else None

    def step(self) -> None:
        """Run one engine step, if there is work, and send what it brought."""
        if self._batcher.busy:
            events = self._batcher.step()
            for event in events:
                self._send(event)
            if any(isinstance(event, Embedded) for event in events):
                self._hand_over()
        for served in list(self._served.values()):
            if served.drain_until_us is not None:
                self._drain(served, served.drain_until_us)

    def drain(self, name: str, seconds: float) -> None:
        """Take no new requests of an instance; it ends when the running ones have, or by then."""
        served = self._served.get(name)
        if served is not None:
            served.drain_until_us = self._now_us() + int(seconds * 1e6)

    def _drain(self, served: _Served, until_us: int) -> None:
        mine = [name for name, (owner, _) in self._owners.items() if owner is served]
        unsent = any(link.wants_write for link in served.links)
        if (mine or unsent) and self._now_us() < until_us:
            return
        for request_id in mine:
            self._batcher.cancel(request_id)
            message = "the instance was stopped before the answer was whole; ask again"
            self._send(Failed(request_id, "instance_lost", message, retryable=True))
        self._close(served)
        self._on_gone(served.name)

    def close(self) -> None:
        """Close every socket. What was running is cancelled."""
        for served in list(self._served.values()):
            self._close(served)

    def _close(self, served: _Served) -> None:
        del self._served[served.name]
        self._reactor.forget(served.listener)
        for link in list(served.links):
            self._drop(served, link)

    def _accept(self, served: _Served) -> None:
        sock = accept_nowait(served.listener)
        if sock is None:
            return
        link: Link = FrameSocket(sock, ToWorker)
        served.links.add(link)
        self._links.add(link)
        self._reactor.watch(link, lambda: self._receive(served, link))

    def _receive(self, served: _Served, link: Link) -> None:
        link.flush_nowait()
        for message in link.receive_nowait():
            if isinstance(message, Cancel):
                self._cancel(link, message)
            else:
                self._submit(served, link, message)
        self._settle(served, link)

    def _submit(self, served: _Served, link: Link, request: Generate | Embed) -> None:
        if served.drain_until_us is not None:
            message = "this instance takes no new requests, it is being stopped; ask another"
            link.send_nowait(Failed(request.request_id, "draining", message, retryable=True))
            return
        try:
            adapter = served.choose(request.request_id)
            self._batcher.submit(request, served.unit, adapter)
        except RequestRefused as error:
            link.send_nowait(Failed(request.request_id, error.reason, str(error), error.may_retry))
        else:
            self._owners[request.request_id] = served, link

    def _cancel(self, link: Link, cancel: Cancel) -> None:
        if self._owners.get(cancel.request_id, (None, None))[1] is link:
            self._batcher.cancel(cancel.request_id)
            del self._owners[cancel.request_id]

    def _send(self, event: FromWorker) -> None:
        owner = self._owners.get(event.request_id)
        if owner is None:
            return
        served, link = owner
        if not isinstance(event, Emitted):
            del self._owners[event.request_id]
        link.send_nowait(event)
        self._settle(served, link)

    def _hand_over(self) -> None:
        """Give who reads the time to take vectors: megabytes, where a socket holds some 200 KB.

        Otherwise each step of the engine would let through only as much as a socket holds.
        """
        while waiting := [link for link in self._links if link.wants_write]:
            ready = select.select([], waiting, [], _HAND_OVER_S)[1]
            if not ready:
                return
            for served in list(self._served.values()):
                for link in served.links & set(ready):
                    link.flush_nowait()
                    self._settle(served, link)

    def _settle(self, served: _Served, link: Link) -> None:
        """Drop a link that has closed; else wait for room when bytes are left over."""
        if link.closed:
            self._drop(served, link)
        else:
            self._reactor.want_write(link, link.wants_write)

    def _drop(self, served: _Served, link: Link) -> None:
        self._reactor.forget(link)
        self._links.discard(link)
        served.links.discard(link)
        for request_id in [name for name, owner in self._owners.items() if owner[1] is link]:
            self._batcher.cancel(request_id)
            del self._owners[request_id]
