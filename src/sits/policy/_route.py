"""Which instance takes the next request. Pure."""

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Candidate(Protocol):
    """What the choice needs to know of an instance."""

    @property
    def accepting(self) -> bool:
        """Whether it takes new requests at all."""
        ...

    @property
    def running(self) -> int:
        """How many requests of this gateway it runs."""
        ...

    @property
    def capacity(self) -> int:
        """How many it runs at once."""
        ...


Choice = TypeVar("Choice", bound=Candidate)


def pick_instance(candidates: Iterable[Choice]) -> Choice | None:
    """Return the least loaded instance that has room, by its share of capacity in use.

    The first of equals wins; None when no instance has room, and the request waits.
    """
    free = [each for each in candidates if each.accepting and each.running < each.capacity]
    return min(free, key=lambda each: each.running / each.capacity, default=None)
