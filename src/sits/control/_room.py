"""How much gateways can be told: the routing table is one frame, and a frame has an end. Pure.

A deploy is refused long before that end, so that what the platform adds by itself (instances,
reasons, keys) always finds room. A store that has more all the same, written by another
version, still gives a table: its largest units are refused by name, and all the rest works.
"""

from collections.abc import Iterable, Sequence

import msgspec

from sits.control._errors import PlatformFull
from sits.control._wanted import UnitKey
from sits.store import KeyEntry
from sits.wire import MAX_FRAME_BYTES, KeyRecord, Table, UnitRoute

MAX_TABLE_BYTES = 8 * 1024 * 1024
LEFT_OUT = (
    f"all units together are over the {MAX_FRAME_BYTES} bytes that gateways can be told, and this "
    "is one of the largest: delete it or other units, or deploy it with a shorter prompt"
)


def key_records(keys: Iterable[KeyEntry]) -> tuple[KeyRecord, ...]:
    """Return keys as gateways are told them."""
    return tuple(KeyRecord(key.key_id, key.secret_hash, key.tenant) for key in keys)


class Room:
    """How much of what gateways can be told is taken.

    What a deploy that makes it more would come to is known without encoding everything anew.
    """

    def __init__(self) -> None:
        self._routes: dict[UnitKey, int] = {}
        self._keys = 0

    @property
    def taken_bytes(self) -> int:
        """The length of a table, without its frame's header."""
        return self._keys + sum(self._routes.values())

    def update(self, changed: Iterable[UnitRoute], gone: Iterable[UnitKey]) -> None:
        """Take over routes that are new or changed, and forget those of units that are gone."""
        for key in gone:
            self._routes.pop(key, None)
        for route in changed:
            self._routes[route.tenant, route.name] = _bytes(route)

    def set_keys(self, keys: tuple[KeyRecord, ...]) -> None:
        """Take over the keys."""
        self._keys = len(msgspec.msgpack.encode(keys))

    def check(self, route: UnitRoute) -> None:
        """Check that a deploy leaves gateways a table that they can be sent.

        One that makes it smaller is always let through: it is what the message asks for.

        Raises:
            PlatformFull: it makes the table larger, and over `MAX_TABLE_BYTES`.
        """
        before, own = self.taken_bytes, _bytes(route)
        after = before - self._routes.get((route.tenant, route.name), 0) + own
        if after > MAX_TABLE_BYTES and after > before:
            raise PlatformFull(
                f"with this unit, all units together would have {after} bytes; expected at most "
                f"{MAX_TABLE_BYTES}: delete units that are not needed, or shorten prompts"
            )


def fit_table(table: Table, limit_bytes: int = MAX_FRAME_BYTES) -> tuple[Table, frozenset[int]]:
    """Return the table without the prompts of its largest units, where it is too large.

    Returns:
        The table, and the positions of the units that it refuses for that reason.
    """
    excess = len(msgspec.msgpack.encode(table)) - limit_bytes
    if excess <= 0:
        return table, frozenset()
    units = list(table.units)
    left_out: set[int] = set()
    for place in _largest_first(units):
        bare = _bare(units[place])
        excess -= _bytes(units[place]) - _bytes(bare)
        units[place] = bare
        left_out.add(place)
        if excess <= 0:
            break
    return msgspec.structs.replace(table, units=tuple(units)), frozenset(left_out)


def _largest_first(units: Sequence[UnitRoute]) -> list[int]:
    return sorted(range(len(units)), key=lambda place: _bytes(units[place]), reverse=True)


def _bytes(route: UnitRoute) -> int:
    return len(msgspec.msgpack.encode(route))


def _bare(route: UnitRoute) -> UnitRoute:
    return msgspec.structs.replace(
        route,
        system=None,
        # Not None: a query would then be told that the unit has no template at all.
        template=None if route.template is None else "",
        instances=(),
        refusal=LEFT_OUT,
    )
