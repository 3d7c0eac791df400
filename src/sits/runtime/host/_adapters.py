"""A unit's adapters as its instance serves them: which request gets which.

Invariant: what a request gets follows from its id and the unit's adapters alone, so that another
instance that takes it over goes on with the same.
"""

from sits.policy import WHOLE_PPM, choose_share
from sits.runtime.engine import AdapterFile, AdapterSet
from sits.wire import UnitAdapter, own_id

_MODEL_ALONE = AdapterSet()


class Traffic:
    """Shares a unit's requests out between its adapters, and the model alone.

    Args:
        adapters: the unit's.
    """

    def __init__(self, adapters: tuple[UnitAdapter, ...]) -> None:
        self._shares = tuple(adapter.share_ppm for adapter in adapters)
        self._sets = tuple(
            AdapterSet((AdapterFile(adapter.path, adapter.digest),)) for adapter in adapters
        )

    @property
    def sets(self) -> tuple[AdapterSet, ...]:
        """What there is for any request to get."""
        is_whole = sum(self._shares) >= WHOLE_PPM
        return self._sets if is_whole else (_MODEL_ALONE, *self._sets)

    def choose(self, request_id: str) -> str:
        """Return the digest of the adapters that a request gets; empty: the model alone.

        Args:
            request_id: the id of one of its tries, which share the request's own.
        """
        place = choose_share(own_id(request_id), self._shares)
        return "" if place is None else self._sets[place].digest
