"""How much memory a worker may take, and how much processes do take.

The limit is the kernel's (`RLIMIT_DATA`): of what a process has of its own, beyond what it had when
it was forked. An allocation over it fails, and ends that one worker. Should the machine itself run
out, workers are what the kernel ends first. Linux only.
"""

import contextlib
import re
import resource
from pathlib import Path

_DATA = re.compile(r"^VmData:\s+(\d+) kB$", re.MULTILINE)
_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)
# Of -1000 to 1000: before everything that nobody has given a number.
_OOM_SCORE = 500


def limit_memory(extra_bytes: int) -> None:
    """Let this process take so much more than it has; from then on allocations fail."""
    found = _DATA.search(Path("/proc/self/status").read_text(encoding="ascii", errors="replace"))
    if found is None:
        return
    limit = int(found[1]) * 1024 + extra_bytes
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")


def tree_bytes(pid: int) -> int:
    """Return what a process and all below it take: shared pages by their share of each."""
    return own_bytes(pid) + sum(map(tree_bytes, _children(pid)))


def own_bytes(pid: int) -> int:
    """Return what one process takes; 0 for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = _PSS.search(text)
    return int(found[1]) * 1024 if found else 0


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
