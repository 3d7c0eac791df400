"""The link to control: the routing table comes down, the demand goes up.

Invariants: the first table of a connection is whole, and its changes come in order; while
control is away the last one stands. The load is level-triggered: it is sent when it differs
from what this connection was last told, at once after a quiet time and at most every `_PAUSE_S`
in a busy one, and first on each connection. A new table, whose version is part of the load, is
told at once also in a busy time: a deploy waits for that. A control that was started anew finds
nobody to wait for until this link is there again: `wait_until_told` is for those who ask it to
change something.
"""

import logging
from collections.abc import Callable

import anyio

from sits.wire import Channel, FromControl, Load, WireError, connect

_PAUSE_S = 0.02
_CONNECT_S = 2.0
_SEND_S = 10.0
_BACKOFF_S = (0.05, 0.25)

log = logging.getLogger(__name__)


class ControlLink:
    """Keeps a link to control for as long as it runs.

    Args:
        path: the unix socket on which control listens.
        on_table: takes each new table, whole or as a change; raises `WireError` when a change is
            not one of the table that it has, which ends the connection.
        make_load: returns the demand of now.
    """

    def __init__(
        self, path: str, on_table: Callable[[FromControl], None], make_load: Callable[[], Load]
    ) -> None:
        self._path = path
        self._on_table = on_table
        self._make_load = make_load
        self._changed = anyio.Event()
        self._table_taken = anyio.Event()
        self._told = anyio.Event()

    async def wait_until_told(self) -> None:
        """Wait until this connection has its first table: from then on control waits for us."""
        await self._told.wait()

    def notify(self) -> None:
        """Say that the demand may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Connect, and again whenever the link breaks, until cancelled."""
        backoff_s = _BACKOFF_S[0]
        while True:
            try:
                with anyio.fail_after(_CONNECT_S):
                    channel = await connect(self._path, FromControl)
            except (OSError, TimeoutError):
                await anyio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, _BACKOFF_S[1])
                continue
            backoff_s = _BACKOFF_S[0]
            log.info("event=control_connected")
            await self._serve(channel)
            self._told = anyio.Event()
            log.warning("event=control_lost")
            await anyio.sleep(backoff_s)

    async def _serve(self, channel: Channel[FromControl]) -> None:
        async with channel, anyio.create_task_group() as group:
            group.start_soon(self._send_loads, channel, group.cancel_scope)
            try:
                async for table in channel:
                    self._on_table(table)
                    self._table_taken.set()
                    self._told.set()
                    self.notify()
            except WireError as error:
                log.error("event=control_link_broken reason=%s", error)
            group.cancel_scope.cancel()

    async def _send_loads(
        self, channel: Channel[FromControl], connection: anyio.CancelScope
    ) -> None:
        told: Load | None = None
        try:
            while True:
                # Before the load is made: what changes meanwhile is told next time.
                self._changed = anyio.Event()
                self._table_taken = anyio.Event()
                load = self._make_load()
                if load != told:
                    with anyio.fail_after(_SEND_S):
                        await channel.send(load)
                    told = load
                    with anyio.move_on_after(_PAUSE_S):
                        await self._table_taken.wait()
                await self._changed.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
            connection.cancel()
