"""What waits to be sent on one link, and the one task that sends it.

A request's task only puts into the outbox: were it to send itself, cancelling it could cut a
frame in half, which ends the link and every other request on it. Invariant: what waits is
bounded; a peer that takes nothing for so long is counted as gone.
"""

from collections import deque
from typing import Any

import anyio
import msgspec

from sits.wire import Channel

_MESSAGES = 8192
_SEND_S = 10.0


class Outbox:
    """Messages for one peer, in order.

    Args:
        connection: cancelled when the peer takes no more.
    """

    def __init__(self, connection: anyio.CancelScope) -> None:
        self._connection = connection
        self._waiting: deque[msgspec.Struct] = deque()
        self._arrived = anyio.Event()
        self._empty = anyio.Event()

    def put_nowait(self, message: msgspec.Struct) -> None:
        """Put a message in; a full outbox ends the connection."""
        if len(self._waiting) >= _MESSAGES:
            self._connection.cancel()
            return
        self._waiting.append(message)
        self._arrived.set()

    async def send_all(self, channel: Channel[Any]) -> None:
        """Send what is put in, until cancelled; ends the connection when the peer is gone."""
        try:
            while True:
                while self._waiting:
                    with anyio.fail_after(_SEND_S):
                        await channel.send(self._waiting[0])
                    self._waiting.popleft()
                self._empty.set()
                self._arrived = anyio.Event()
                await self._arrived.wait()
                self._empty = anyio.Event()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
            self._connection.cancel()

    async def wait_empty(self) -> None:
        """Wait until the peer has been sent everything."""
        while self._waiting:
            await self._empty.wait()
