"""A blocking end of a `wire` link, for tests that talk to real processes."""

import select
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from sits.wire import FrameSocket

DEADLINE_S = 30.0

T = TypeVar("T")


class Link:
    """Connects (once the socket is there), sends, and waits for messages, never for ever."""

    def __init__(self, path: str, types: Any) -> None:
        self._frames: FrameSocket[Any] = FrameSocket(_connect(path), types)
        self._inbox: list[Any] = []

    def send(self, message: msgspec.Struct) -> None:
        self._frames.send_nowait(message)

    def next(self, wanted: type | tuple[type, ...] | None = None) -> Any:
        """Return the next message; those of other types than `wanted` are passed over."""
        until = time.monotonic() + DEADLINE_S
        while True:
            while self._inbox:
                message = self._inbox.pop(0)
                if wanted is None or isinstance(message, wanted):
                    return message
            if self._frames.closed:
                raise AssertionError(f"the peer closed; wanted {wanted}")
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._frames], [], [], left)[0]:
                raise AssertionError(f"nothing came within {DEADLINE_S} s; wanted {wanted}")
            self._inbox += self._frames.receive_nowait()

    def close(self) -> None:
        self._frames.close()


def _connect(path: str) -> socket.socket:
    def attempt() -> socket.socket | None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
        except OSError:
            sock.close()
            return None
        return sock

    return wait_for(attempt, f"nothing listens on {path}")


def wait_for(probe: Callable[[], T | None], otherwise: str, within_s: float = DEADLINE_S) -> T:
    """Return the first true answer of `probe`; fail with `otherwise` when none comes in time."""
    until = time.monotonic() + within_s
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(otherwise)
        time.sleep(0.005)
