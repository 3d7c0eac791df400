"""The walls around one render: wall time and memory.

Invariants: whatever happens inside, the timer, its signal handler and the memory limit of
before are back afterwards; a timer that the caller had set goes on (late by as long as the
render took, at most).

Both walls belong to the process and to its main thread: they stand only when `guard` is
entered there. Elsewhere (a service with threads, which should not render at all) the
environment's own refusals and the output limit are what is left.
"""

import contextlib
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

# The signal comes again: an interpreter that runs a finalizer when it first arrives
# prints the exception and goes on.
_REPEAT_S = 0.05


@dataclass(frozen=True)
class Limits:
    """How much one render may take.

    Attributes:
        template_chars: length of the template.
        output_chars: length of the rendered text.
        wall_s: time, in seconds, for compiling and rendering.
        memory_bytes: address space beyond what the process has already.
        kill_s: CPU time after which the kernel ends the whole process: for one long operation
            inside the interpreter, which no exception can interrupt. None: it does not; a
            process that more than one tenant depends on must not be ended so.
    """

    template_chars: int = 256 * 1024
    output_chars: int = 1024 * 1024
    wall_s: float = 1.0
    memory_bytes: int = 256 * 1024 * 1024
    kill_s: float | None = None


class TimeUp(BaseException):
    """The wall time is over. Not an `Exception`, so that no filter can swallow it."""


@contextlib.contextmanager
def guard(limits: Limits) -> Iterator[None]:
    """Bound the time and memory of the block.

    Raises:
        TimeUp: the block took longer than `limits.wall_s`.
        MemoryError: the block wanted more than `limits.memory_bytes`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _last_resort(limits.kill_s), _memory(limits.memory_bytes), _wall_time(limits.wall_s):
        yield


@contextlib.contextmanager
def _last_resort(kill_s: float | None) -> Iterator[None]:
    if kill_s is None:
        yield
        return
    handler = signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, kill_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)


@contextlib.contextmanager
def _wall_time(wall_s: float) -> Iterator[None]:
    armed = True

    def on_alarm(_signum: int, _frame: FrameType | None) -> None:
        if armed:
            raise TimeUp

    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, on_alarm)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, wall_s, _REPEAT_S)
    try:
        try:
            yield
        finally:
            armed = False
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left_s:
            rest_s = max(left_s - (time.monotonic() - started), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, rest_s, interval_s)


@contextlib.contextmanager
def _memory(extra_bytes: int) -> Iterator[None]:
    # Only Linux holds a process to RLIMIT_AS and tells its present size this cheaply.
    if sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _address_space_bytes() + extra_bytes
    ceilings = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([wanted, *ceilings]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split(maxsplit=1)[0]) * resource.getpagesize()
