"""Requests that wait, and which unit's turn it is.

Invariants: within a unit, first come, first served; between units, the one that was given the
fewest tokens goes first; a unit that was away comes back with no claim to what it did not use.
"""

from collections import deque
from collections.abc import Iterator

from sits.runtime.batch._request import RunningRequest


class FairQueue:
    """The requests of one instance that have no sequence yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[RunningRequest]] = {}
        self._served: dict[str, float] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[RunningRequest]:
        for waiting in self._waiting.values():
            yield from waiting

    def push(self, request: RunningRequest, active: frozenset[str]) -> None:
        """Take a request in.

        Args:
            request: that waits from now on.
            active: units that have any request here now, waiting or running.
        """
        if request.unit not in active:
            least = min((self._served.get(unit, 0.0) for unit in active), default=0.0)
            former = self._served.get(request.unit, 0.0)
            # Of units that are not here nothing is remembered but this.
            self._served = {unit: self._served.get(unit, 0.0) for unit in active}
            self._served[request.unit] = max(former, least) if active else 0.0
        self._waiting.setdefault(request.unit, deque()).append(request)

    def in_turn(self) -> Iterator[RunningRequest]:
        """Yield all, whose turn it is first. Stop before any is put in or taken out."""
        for unit in sorted(self._waiting, key=self.served):
            yield from self._waiting[unit]

    def remove(self, request: RunningRequest) -> None:
        """Take a request out."""
        waiting = self._waiting[request.unit]
        waiting.remove(request)
        if not waiting:
            del self._waiting[request.unit]

    def served(self, unit: str) -> float:
        """Return how many tokens a unit was given."""
        return self._served.get(unit, 0.0)

    def charge(self, unit: str, tokens: int) -> None:
        """Count tokens that a unit was given."""
        self._served[unit] = self._served.get(unit, 0.0) + tokens
