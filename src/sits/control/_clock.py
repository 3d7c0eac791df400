"""Time as it is injected: monotonic for decisions, Unix for records."""

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """What tells the time, and waits for it."""

    def monotonic_s(self) -> float:
        """Return seconds that only go forward."""
        ...

    def unix_s(self) -> float:
        """Return Unix seconds."""
        ...

    async def sleep_until(self, when_s: float) -> None:
        """Return when the monotonic time is `when_s` or later."""
        ...


class SystemClock:
    """The machine's own time."""

    def monotonic_s(self) -> float:
        """Return the monotonic time of the machine."""
        return time.monotonic()

    def unix_s(self) -> float:
        """Return the machine's Unix time."""
        return time.time()

    async def sleep_until(self, when_s: float) -> None:
        """Sleep until then."""
        await anyio.sleep(max(0.0, when_s - time.monotonic()))


async def wait_until(clock: Clock, event: anyio.Event, due_s: float | None) -> None:
    """Wait for an event, and set it at a time if nobody has until then.

    Args:
        clock: tells the time.
        event: what is waited for.
        due_s: the monotonic time; None: for ever.
    """
    if due_s is None:
        await event.wait()
        return
    async with anyio.create_task_group() as group:

        async def set_when_due() -> None:
            await clock.sleep_until(due_s)
            event.set()

        group.start_soon(set_when_due)
        await event.wait()
        group.cancel_scope.cancel()
