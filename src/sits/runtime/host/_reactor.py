"""Waiting on a few sockets, in a process that forks.

`poll` and not `epoll`: an epoll set is shared by a parent and its forked child, and one would
lose the other's registrations. Invariant: everything watched is closed by `close_all`, which is
what a forked child does with its parent's half of the world.
"""

import selectors
from collections.abc import Callable
from typing import Protocol


class Watched(Protocol):
    """A socket, or what wraps one. Equal only to itself."""

    def fileno(self) -> int:
        """Return the descriptor, -1 once closed."""
        ...

    def close(self) -> None:
        """Close it. Idempotent."""
        ...


class Reactor:
    """Calls back when a socket may be read (or written, where that was asked for)."""

    def __init__(self) -> None:
        self._selector = selectors.PollSelector()
        self._callbacks: dict[Watched, Callable[[], None]] = {}

    def watch(self, item: Watched, callback: Callable[[], None]) -> None:
        """Call `callback` each time `item` may be read."""
        self._selector.register(item, selectors.EVENT_READ, item)
        self._callbacks[item] = callback

    def want_write(self, item: Watched, wanted: bool) -> None:
        """Also call back when `item` takes bytes again, or no longer."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        if item in self._callbacks and self._selector.get_key(item).events != events:
            self._selector.modify(item, events, item)

    def forget(self, item: Watched) -> None:
        """Stop watching, and close. Idempotent, also for what has closed itself."""
        if self._callbacks.pop(item, None) is not None:
            self._selector.unregister(item)
        item.close()

    def turn(self, timeout_s: float | None) -> None:
        """Wait at most `timeout_s` (None: without end) and run the callbacks that are due."""
        for key, _events in self._selector.select(timeout_s):
            callback = self._callbacks.get(key.data)
            if callback is not None:
                callback()

    def close_all(self) -> None:
        """Close everything that is watched, and the selector."""
        for item in list(self._callbacks):
            self.forget(item)
        self._selector.close()
