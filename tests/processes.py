"""Looking at process trees, for tests that kill."""

import subprocess
from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children, oldest first."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def is_running(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that the test started."""
    process.kill()
    process.wait(10)


def descendants(pid: int) -> dict[str, list[int]]:
    """Return the ids of a process and all below it, by the name that each gave itself."""
    found: dict[str, list[int]] = {}
    todo = [pid]
    while todo:
        current = todo.pop()
        try:
            name = Path(f"/proc/{current}/comm").read_text().strip()
            todo += children(current)
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.setdefault(name, []).append(current)
    return found
