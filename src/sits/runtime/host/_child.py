"""A forked process as its parent sees it: a link, and an end that is always noticed.

The kernel closes a process's sockets when it ends, however it ends, so the end of the link is
the end of the child; it is collected then.
"""

import os
import signal
import socket
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from sits.runtime.host._fork import fork_child, reap
from sits.runtime.host._reactor import Reactor
from sits.wire import FrameSocket

Up = TypeVar("Up")

# A process whose sockets the kernel has closed is nearly gone: long enough to learn how it ended.
_GRACE_S = 0.2


class Child(Generic[Up]):
    """Forks `body(link)` and keeps the other end of its link in `reactor`.

    Args:
        up: the union of messages that the child sends.
        body: what the child does with its end, a plain socket; everything else that it
            inherited is closed before.
        on_message: called with each message of the child.
        on_end: called once, with how the child ended.

    Raises:
        ForkRefused, OSError: there is no child.
    """

    def __init__(
        self,
        reactor: Reactor,
        up: Any,
        body: Callable[[socket.socket], None],
        *,
        on_message: Callable[[Up], None],
        on_end: Callable[[str], None],
    ) -> None:
        ours, theirs = socket.socketpair()

        def in_child() -> None:
            ours.close()
            reactor.close_all()
            body(theirs)

        try:
            self.pid = fork_child(in_child)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._reactor = reactor
        self._on_message = on_message
        self._on_end = on_end
        self._link: FrameSocket[Up] = FrameSocket(ours, up)
        reactor.watch(self._link, self._receive)

    def send(self, message: msgspec.Struct) -> None:
        """Send the child a message; one that has ended drops it."""
        self._link.send_nowait(message)
        if not self._link.closed:
            self._reactor.want_write(self._link, self._link.wants_write)

    def kill(self) -> None:
        """Have the kernel end it; its end is told as any other."""
        os.kill(self.pid, signal.SIGKILL)

    def end(self, grace_s: float) -> None:
        """End it and collect it: its link closes, and it is killed after `grace_s`."""
        self._reactor.forget(self._link)
        reap(self.pid, grace_s)

    def _receive(self) -> None:
        self._link.flush_nowait()
        for message in self._link.receive_nowait():
            self._on_message(message)
        if self._link.closed:
            self._reactor.forget(self._link)
            self._on_end(reap(self.pid, _GRACE_S))
        else:
            self._reactor.want_write(self._link, self._link.wants_write)
