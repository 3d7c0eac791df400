"""What the platform's logs say of one unit: lines that name its tenant and it, in time's order.

Lines of others never come through, so a line counts only if it has both words `tenant=T` and
`unit=NAME`. A caller follows by giving back the cursor that it was given: how far each file was
read. Files are cut from time to time; what is shorter than its cursor is read from its start.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sits.control._errors import RequestError
from sits.control._wanted import UnitKey

MAX_LINES = 1000
_TAIL_BYTES = 4 * 1024 * 1024
_QUOTE = re.compile(r"['\"]")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\S+Z ")


@dataclass(frozen=True)
class LogPage:
    """Some lines, oldest first, and where to go on."""

    lines: tuple[str, ...]
    cursor: str


def read_unit_log(directory: Path, key: UnitKey, *, tail: int, cursor: str = "") -> LogPage:
    """Return a unit's newest lines, or those since a cursor.

    Args:
        directory: where the logs are.
        key: the unit.
        tail: at most so many lines.
        cursor: as an earlier page gave it; empty: from the tail of each file.

    Raises:
        RequestError: the cursor is none.
    """
    offsets = _decode(cursor)
    found: list[str] = []
    ends: dict[str, int] = {}
    for path in sorted(directory.glob("*.log")):
        lines, ends[path.name] = _read(path, offsets)
        found += _of_unit(lines, key)
    found.sort(key=lambda line: line[:24])  # the time; lines of one moment keep their order
    return LogPage(tuple(deque(found, maxlen=min(tail, MAX_LINES))), json.dumps(ends))


def _decode(cursor: str) -> Mapping[str, int] | None:
    if not cursor:
        return None
    try:
        offsets = json.loads(cursor)
    except (ValueError, RecursionError):
        offsets = None
    if not isinstance(offsets, dict) or not all(isinstance(n, int) for n in offsets.values()):
        raise RequestError("the cursor is none; give back the one of the last page, or none")
    return offsets


def _read(path: Path, offsets: Mapping[str, int] | None) -> tuple[list[str], int]:
    """Return a file's whole lines from its offset on, and where they end."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - _TAIL_BYTES)
            if offsets is not None:
                known = max(0, offsets.get(path.name, 0))
                start = max(start, known) if known <= size else start
            file.seek(start)
            data = file.read(_TAIL_BYTES)
    except OSError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode("utf-8", "replace").splitlines(), start + len(whole)


def _of_unit(lines: list[str], key: UnitKey) -> Iterator[str]:
    words = {f"tenant={key[0]}", f"unit={key[1]}"}
    for line in lines:
        # What others chose stands in quotes, after the fields that are ours.
        if _TIME.match(line) and words <= set(_QUOTE.split(line, maxsplit=1)[0].split()):
            yield line
