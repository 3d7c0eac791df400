"""States that wait outside of the pool, in this process's memory.

Invariants: together never more than `most_bytes`; what goes first is worth least: seldom used,
and long ago.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(eq=False)
class Parked:
    """A state outside of the pool.

    Attributes:
        tokens: packed token ids, int32 each.
        used_us: when it was last used.
        hits: how often it was.
    """

    tokens: bytes
    adapter: str
    state: bytes
    used_us: int
    hits: int = 0

    def worth(self, now_us: int) -> float:
        """Return how often it is used, by its age: states cost alike for each of their bytes."""
        return (self.hits + 1) / max(1, now_us - self.used_us)


class Shelf:
    """Parked states. Its `most_bytes` counts the states alone."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._parked: list[Parked] = []
        self.bytes = 0

    def __iter__(self) -> Iterator[Parked]:
        return iter(self._parked)

    def __len__(self) -> int:
        return len(self._parked)

    def put(self, item: Parked, now_us: int) -> bool:
        """Take a state; those worth least go for it. Returns False when it is too large."""
        if len(item.state) > self._most_bytes:
            return False
        while self.bytes + len(item.state) > self._most_bytes:
            self.take(min(self._parked, key=lambda parked: parked.worth(now_us)))
        self._parked.append(item)
        self.bytes += len(item.state)
        return True

    def take(self, item: Parked) -> None:
        """Give a state away."""
        self._parked.remove(item)
        self.bytes -= len(item.state)
