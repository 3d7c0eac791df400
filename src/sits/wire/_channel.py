"""Frames over a unix socket, for the anyio services (gateway, control, node, CLI)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from sits.wire._frames import Frames, encode_frame
from sits.wire._socket import listen

_CHUNK_BYTES = 64 * 1024

In = TypeVar("In")


class Channel(Generic[In]):
    """One end of a link. `In` is the union of messages that the peer sends.

    Iterating gives the peer's messages and ends when the peer closes. One task reads; any
    number may send (frames are never interleaved). Cancelling a send may cut a frame in
    half, so the channel is closed then.
    """

    def __init__(self, stream: anyio.abc.SocketStream, types: Any) -> None:
        self._stream = stream
        self._sock = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        self._frames: Frames[In] = Frames(types)
        self._send_lock = anyio.Lock()
        self._closing = False

    async def send(self, message: msgspec.Struct) -> None:
        """Send one message.

        Raises:
            anyio.BrokenResourceError, anyio.ClosedResourceError: the peer is gone.
            WireError: the message is over the frame limit (nothing was sent).
        """
        frame = encode_frame(message)
        async with self._send_lock:
            try:
                await self._stream.send(frame)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await self.aclose()
                raise

    async def __aiter__(self) -> AsyncIterator[In]:
        """Give the peer's messages, until it closes. Raises `WireError` on a foreign frame."""
        while True:
            data = await self._receive()
            if not data:
                return
            for message in self._frames.feed(data):
                yield message

    async def _receive(self) -> bytes:
        """Return what is there, empty at the end.

        Not by the stream's own `receive`: cancelled at the moment when bytes arrive, that one
        leaves an `InvalidStateError` to the event loop (anyio 4.16).
        """
        await anyio.lowlevel.checkpoint()
        while not self._closing:
            try:
                return self._sock.recv(_CHUNK_BYTES)
            except BlockingIOError:
                pass
            except OSError:
                return b""
            try:
                await anyio.wait_readable(self._sock)
            except anyio.ClosedResourceError:
                break
        return b""

    async def aclose(self) -> None:
        """Close this end. Idempotent."""
        if not self._closing:
            self._closing = True
            anyio.notify_closing(self._sock)
            # Who reads wakes up before the descriptor can be another's.
            await anyio.lowlevel.cancel_shielded_checkpoint()
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.aclose()


async def connect(path: str, types: Any) -> Channel[Any]:
    """Open the link that listens at `path`; `types` is what the peer sends.

    Raises:
        OSError: nothing listens there.
    """
    return Channel(await anyio.connect_unix(path), types)


async def serve(
    path: str,
    types: Any,
    handler: Callable[[Channel[Any]], Awaitable[None]],
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Listen at `path` and run `handler` for each peer, until cancelled.

    The channel is closed when its handler returns. `task_status` is started once the socket
    listens.
    """
    listener = await anyio.abc.SocketListener.from_socket(listen(path))

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with Channel[Any](stream, types) as channel:
            await handler(channel)

    async with listener:
        task_status.started()
        await listener.serve(handle)
