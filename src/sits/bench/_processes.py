"""What the kernel says of processes, in /proc: for Linux."""

import os
from collections.abc import Iterator
from pathlib import Path

from sits.bench._errors import BenchError


def cpu_s(pid: int) -> float:
    """Return the CPU time that all threads of a process had until now, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def memory_mb(pid: int) -> float:
    """Return how much memory of a process is resident."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def family(pid: int) -> Iterator[str]:
    """Yield what the descendants of a process are called."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read_now(children).split():
            yield _read_now(Path(f"/proc/{child}/comm")).strip()
            yield from family(int(child))


def _read_now(path: Path) -> str:
    """Return a file of /proc; empty when its process has ended meanwhile."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def pss_mb(pid: int) -> float:
    """Return a process's share of the memory that it uses, in MB; what it shares is divided."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "Pss":
            return int(value.split()[0]) * 1024 / 1e6
    raise BenchError(f"/proc/{pid}/smaps_rollup has no Pss; run benchmarks on Linux")
