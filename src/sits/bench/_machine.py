"""What a result holds for: the machine, how fast it was just then, and the versions on it.

Two results may be compared number by number when `same_machine` says so; what else ran on it
meanwhile shows in `pace_ms`, the time of a fixed piece of work.
"""

import os
import platform
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sits._version import __version__

_IDENTITY = ("cpu", "cores", "memory_gb", "system")
_PACE_SAMPLES = 15
_PACE_SUM_TO = 200_000


def describe_machine() -> dict[str, Any]:
    """Return the machine of now, as JSON's types."""
    return {
        "cpu": _first_of("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": _cores(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sits": __version__,
        "load_before": round(os.getloadavg()[0], 2),
    }


def pace_ms() -> float:
    """Return how long a fixed piece of work takes on one core just now, about 10 ms."""
    samples = []
    for _ in range(_PACE_SAMPLES):
        began_s = time.perf_counter()
        sum(number * number for number in range(_PACE_SUM_TO))
        samples.append((time.perf_counter() - began_s) * 1e3)
    return statistics.median(samples)


def slowdown(former: Mapping[str, Any], latest: Mapping[str, Any]) -> float:
    """Return by how much a machine was slower in the latter result; at least 1."""
    before, now = former.get("pace_ms"), latest.get("pace_ms")
    return max(1.0, now / before) if before and now else 1.0


def same_machine(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two descriptions are of machines of the same kind."""
    return all(one.get(name) == other.get(name) for name in _IDENTITY)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gb() -> int:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9)
    except (ValueError, OSError):
        return 0


def _first_of(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    found = [line.partition(":")[2].strip() for line in lines if line.startswith(name)]
    return found[0] if found else ""
