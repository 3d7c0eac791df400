"""Frames over a non-blocking unix socket, for the synchronous single-threaded loops.

Invariants: nothing here blocks; what the peer does not take yet is kept, up to
`MAX_BACKLOG_BYTES`, after which the peer is counted as gone (it is not reading, and its
requests are cancelled like those of a peer that closed). A link whose peer is gone is `closed`
but keeps its descriptor until `close`: a selector may still know it, and the number must not
become another's before that.
"""

import contextlib
import errno
import os
import socket
import time
from typing import Any, Generic, TypeVar

import msgspec

from sits.wire._frames import MAX_FRAME_BYTES, Frames, WireError, encode_frame

MAX_BACKLOG_BYTES = MAX_FRAME_BYTES
_CHUNK_BYTES = 256 * 1024
_NO_DESCRIPTOR_S = 0.05

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
        if len(self._backlog) > MAX_BACKLOG_BYTES:
            self._give_up()
            return
        self._backlog += encode_frame(message)
        self.flush_nowait()

    def flush_nowait(self) -> None:
        """Send what is kept, as far as the peer takes it."""
        while self._backlog and not self.closed:
            try:
                sent = self._sock.send(self._backlog)
            except BlockingIOError:
                return
            except OSError:
                self._give_up()
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
                self._give_up()
                break
            try:
                messages += self._frames.feed(data)
            except WireError:
                self._give_up()
        return messages

    def _give_up(self) -> None:
        """Count the peer as gone. A selector sees that, and its owner closes."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end and its descriptor. Idempotent."""
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
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(before)
    sock.listen(128)
    return sock


def accept_nowait(listener: socket.socket) -> socket.socket | None:
    """Return a new connection; None when the peer gave up, or no descriptor is free.

    In the latter case the connection stays in the queue, so this waits a moment: its caller
    would come back at once, for ever.
    """
    try:
        return listener.accept()[0]
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            time.sleep(_NO_DESCRIPTOR_S)
        return None
