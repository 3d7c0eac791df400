"""How many cores other programs leave to a worker, by the kernel's own counts.

Threads of one step wait for each other hundreds of times. Where another program has a core, each
of these waits lasts until that program's turn is over: a step on two threads that share one core
takes ten times as long as on one thread. So a worker computes with as many threads as there are
cores that nobody else used of late.

Not for Linux alone: where the kernel tells nothing, all cores count as free.
"""

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path

# Ticks are 10 ms, so of a shorter time nothing can be said.
_WINDOW_S = 0.1
# So much of a core may others have before it counts as theirs: gateways and clients wake up for
# a moment with each token.
_OTHERS = 0.35
_STAT = Path("/proc/stat")


class SpareCores:
    """Counts the cores of this process that others do not use.

    Args:
        clock_s: a monotonic clock, in seconds.
        own_s: CPU time of this process, of all its threads, in seconds.
        busy_s: CPU time that some cores have spent on anything, in seconds.
        cores: those that this process may use.
    """

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        own_s: Callable[[], float] = time.process_time,
        busy_s: Callable[[Collection[int]], float] | None = None,
        cores: Collection[int] | None = None,
    ) -> None:
        self._clock_s = clock_s
        self._own_s = own_s
        self._busy_s = busy_s or read_busy_s
        self._cores = os.sched_getaffinity(0) if cores is None else cores
        self._spare = len(self._cores)
        self._since = self._look()

    def count(self) -> int:
        """Return how many there are, at least 1. Costs microseconds; looks ten times a second."""
        if self._clock_s() - self._since[0] >= _WINDOW_S:
            now = self._look()
            took_s, own_s, busy_s = (new - old for new, old in zip(now, self._since, strict=True))
            others = max(0.0, (busy_s - own_s) / took_s)
            spare = int(len(self._cores) - others + _OTHERS)
            self._spare = min(max(1, spare), len(self._cores))
            self._since = now
        return self._spare

    def _look(self) -> tuple[float, float, float]:
        return self._clock_s(), self._own_s(), self._busy_s(self._cores)


def read_busy_s(cores: Collection[int]) -> float:
    """Return for how long some cores have worked since the start; 0 where that is not told."""
    try:
        text = _STAT.read_text(encoding="ascii")
    except OSError:
        return 0.0
    wanted = {f"cpu{core}" for core in cores}
    ticks = 0
    for line in text.partition("intr")[0].splitlines():
        name, *counts = line.split()
        if name in wanted:
            # user, nice, system, (idle, waiting for disks,) interrupts twice, stolen by others
            ticks += sum(map(int, counts[:3])) + sum(map(int, counts[5:8]))
    return ticks / os.sysconf("SC_CLK_TCK")
