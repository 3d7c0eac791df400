"""Frames over a non-blocking unix socket, for the synchronous single-threaded loops.

Invariants: nothing here blocks; what the peer does not take yet is kept, up to
`MAX_BACKLOG_BYTES`, after which the peer is counted as gone (it is not reading, and its
requests are cancelled like those of a peer that closed).
"""

import contextlib
import os
import socket
from typing import Any, Generic, TypeVar

import msgspec

from sits.wire._frames import Frames, WireError, encode_frame

MAX_BACKLOG_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024

In = TypeVar("In")


class FrameSocket(Generic[In]):
    """One end of a link. `In` is the union of messages that the peer sends."""

    def __init__(self, sock: socket.socket, types: Any) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._frames: Frames[In] = Frames(types)
        self._backlog = bytearray()
        self.closed = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector (-1 when closed)."""
        return self._sock.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait for the peer to take them."""
        return bool(self._backlog)

    def send_nowait(self, message: msgspec.Struct) -> None:
        """Send as much as the peer takes now and keep the rest. A closed link drops it."""
        if self.closed:
            return
        self._backlog += encode_frame(message)
        self.flush_nowait()
        if len(self._backlog) > MAX_BACKLOG_BYTES:
            self.close()

    def flush_nowait(self) -> None:
        """Send what is kept, as far as the peer takes it."""
        while self._backlog and not self.closed:
            try:
                sent = self._sock.send(self._backlog)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            del self._backlog[:sent]

    def receive_nowait(self) -> list[In]:
        """Return the messages that are there; sets `closed` when the peer is gone.

        A peer that sends what is not a frame of this link is treated as gone.
        """
        messages: list[In] = []
        while not self.closed:
            try:
                data = self._sock.recv(_CHUNK_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.close()
                break
            try:
                messages += self._frames.feed(data)
            except WireError:
                self.close()
        return messages

    def close(self) -> None:
        """Close this end. Idempotent."""
        self.closed = True
        self._sock.close()


def listen(path: str) -> socket.socket:
    """Listen on a unix socket that only this user may open.

    A stale socket file at `path` is replaced. Mutates the file system.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    before = os.umask(0o177)
    try:
        sock.bind(path)
    finally:
        os.umask(before)
    sock.listen(128)
    return sock
