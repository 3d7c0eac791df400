"""Whether workers go on: pure but for a look at /proc.

Alive is what makes progress. A worker that has work and whose loop has not come round for too long
is stuck; one that the kernel has stopped is not found by waiting for it, so that is asked.

Invariant: time in which the watcher itself did not run counts for nobody.
"""

from dataclasses import dataclass
from pathlib import Path

from sits.runtime.host._board import Glance

POLL_S = 0.5
# Far longer than the rendering of a prompt may take, which is ended by its own limit, and than a
# step on a machine that has too much to do.
_LEAST_S = 10.0
_TIMES_LONGEST = 10.0
_STOPPED_S = 1.0


@dataclass
class _Seen:
    turns: int = -1
    still_s: float = 0.0
    stopped_s: float = 0.0


class Watch:
    """What was seen of each worker."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._looked_s: float | None = None

    def look(self, glances: dict[str, tuple[Glance, bool]], now_s: float) -> dict[str, str]:
        """Return the workers that are stuck, and why in words.

        Args:
            glances: each worker's seat, and whether the kernel has stopped it.
            now_s: the monotonic time.
        """
        since_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        self._looked_s = now_s
        passed_s = min(max(since_s, 0.0), 2 * POLL_S)
        self._seen = {name: self._seen.get(name, _Seen()) for name in glances}
        stuck = {}
        for name, (glance, stopped) in glances.items():
            reason = _judge(self._seen[name], glance, passed_s, stopped=stopped)
            if reason:
                stuck[name] = reason
        return stuck


def _judge(seen: _Seen, glance: Glance, passed_s: float, *, stopped: bool) -> str:
    seen.stopped_s = seen.stopped_s + passed_s if stopped else 0.0
    if glance.turns != seen.turns or not glance.awake:
        seen.turns, seen.still_s = glance.turns, 0.0
    else:
        seen.still_s += passed_s
    if seen.stopped_s >= _STOPPED_S:
        return f"it was stopped for {seen.stopped_s:.1f} s"
    limit_s = max(_LEAST_S, _TIMES_LONGEST * glance.longest_us / 1e6)
    return f"it made no progress for {seen.still_s:.1f} s" if seen.still_s >= limit_s else ""


def is_stopped(pid: int) -> bool:
    """Return whether the kernel has stopped a process (SIGSTOP); False where that is not told."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    # After the name, which is in brackets and may hold anything.
    return status.rpartition(")")[2].split()[:1] == ["T"]
