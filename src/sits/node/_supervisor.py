"""Keeping a process up: started again, with backoff, until it is told not to be."""

import logging
import signal
import time
from collections.abc import Awaitable, Callable

import anyio

from sits.node._process import ChildProcess
from sits.policy import Backoff, after_failure

_log = logging.getLogger(__name__)

Starter = Callable[[], Awaitable[ChildProcess]]
_STEADY_S = 10.0
# A crash loop's usual wait is for a unit; while a service is away every unit is.
_LONGEST_DELAY_S = 4.0


class Supervisor:
    """Holds one process up.

    Args:
        name: what logs call it.
        start: starts it.
        on_end: told its name and how it ended, each time that nobody asked for that; when it
            raises, the process is not started again.
    """

    def __init__(self, name: str, start: Starter, on_end: Callable[[str, str], None]) -> None:
        self._name = name
        self._start = start
        self._on_end = on_end
        self._stopping = anyio.Event()
        self._process: ChildProcess | None = None

    async def run(self) -> None:
        """Start it, and again whenever it ends. Cancellation kills it."""
        backoff = Backoff()
        try:
            while not self._stopping.is_set():
                began_s = time.monotonic()
                how = await self._run_once()
                if self._stopping.is_set():
                    return
                self._on_end(self._name, how)
                now_s = time.monotonic()
                if now_s - began_s > _STEADY_S:
                    backoff = Backoff()
                backoff = after_failure(backoff, how, now_s)
                _log.error("%s ended (%s); it is started again", self._name, how)
                with anyio.move_on_after(delay_s(backoff, now_s)):
                    await self._stopping.wait()
        finally:
            if self._process is not None:
                await self._process.end(0.0)

    async def _run_once(self) -> str:
        """Start it, wait for its end, and return how it ended."""
        try:
            self._process = await self._start()
        except OSError as error:
            return f"no process for it: {error}"
        how = await self._process.wait()
        self._process = None
        return how

    async def stop(self, grace_s: float) -> None:
        """End it for good, killing it after `grace_s`."""
        self._stopping.set()
        if self._process is not None:
            await self._process.end(grace_s)

    def kill_nowait(self) -> None:
        """Have it killed, for good."""
        self._stopping.set()
        if self._process is not None:
            self._process.signal(signal.SIGKILL)


def delay_s(backoff: Backoff, now_s: float) -> float:
    """Return how long to wait before a service is started again."""
    return min(backoff.retry_at_s - now_s, _LONGEST_DELAY_S)
