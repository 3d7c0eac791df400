"""What gateways are told: the whole routing table, each time that it changes.

Invariants: versions increase, also over restarts (the high bits count control's starts); only
ready instances are in it; a unit at zero instances is in it, since its endpoint stays. A table
that was sent is true at a gateway when the gateway says so: `wait_taken` waits for that.
"""

import logging
from collections.abc import Iterable

import anyio

from sits.control._lifecycle import State
from sits.control._plan import Wanted
from sits.control._room import fit_table, key_records
from sits.control._settings import Settings
from sits.control._status import unit_refusal
from sits.control._world import TrackedInstance, UnitKey, World
from sits.store import KeyEntry
from sits.wire import Channel, Load, RoutedInstance, Table, UnitRoute, WireError

_EPOCH_BITS = 32
_SEND_S = 1.0

log = logging.getLogger(__name__)


def make_routes(
    world: World, wanted: Iterable[Wanted], settings: Settings, now_s: float
) -> tuple[UnitRoute, ...]:
    """Return the routes of all units that are not being deleted."""
    return tuple(_route(world, unit, settings, now_s) for unit in wanted if not unit.deleted)


def _route(world: World, unit: Wanted, settings: Settings, now_s: float) -> UnitRoute:
    prompt = unit.unit.prompt if unit.unit else None
    return UnitRoute(
        name=unit.name,
        tenant=unit.tenant,
        revision=unit.revision,
        created_s=int(unit.created_s),
        system=prompt.system if prompt else None,
        template=prompt.template if prompt else None,
        instances=tuple(
            routed for item in world.instances_of(unit.key) if (routed := _routed(item))
        ),
        refusal=unit_refusal(world, unit, now_s),
        hold_s=settings.hold_s,
        queue_limit=settings.queue_limit,
    )


def _routed(item: TrackedInstance) -> RoutedInstance | None:
    if item.life.state is not State.READY or item.value is None:
        return None
    return RoutedInstance(item.name, item.value.endpoint, item.value.tier, item.value.capacity)


class Publisher:
    """Gives every connected gateway the newest table."""

    def __init__(self, epoch: int) -> None:
        self._whole = self._table = Table(epoch << _EPOCH_BITS, (), ())
        self._left_out: frozenset[UnitKey] = frozenset()
        self._gateways: dict[int, Channel[Load]] = {}
        self._taken: dict[int, int] = {}
        self._progress = anyio.Event()
        self._next_gateway = 0

    @property
    def version(self) -> int:
        """The version that gateways have."""
        return self._table.version

    @property
    def left_out(self) -> frozenset[UnitKey]:
        """The units that the table refuses, since with them it would be too large."""
        return self._left_out

    @property
    def gateway_count(self) -> int:
        """How many gateways are connected."""
        return len(self._gateways)

    async def join(self, channel: Channel[Load]) -> int:
        """Take in a gateway, give it the table, and return a number for it."""
        self._next_gateway += 1
        gateway = self._next_gateway
        self._gateways[gateway] = channel
        await self._send(gateway, channel)
        return gateway

    def leave(self, gateway: int) -> None:
        """Forget a gateway. Idempotent."""
        self._gateways.pop(gateway, None)
        self._taken.pop(gateway, None)
        self._note_progress()

    def taken(self, gateway: int, version: int) -> None:
        """Note the version of the table which a gateway has taken."""
        # One that was not published here is of a store that is no more.
        if gateway in self._gateways and version <= self._table.version:
            self._taken[gateway] = version
            self._note_progress()

    def not_taken(self, version: int) -> int:
        """Return how many gateways have not taken this version of the table yet."""
        return sum(self._taken.get(gateway, 0) < version for gateway in self._gateways)

    async def wait_taken(self) -> None:
        """Wait until every gateway that is connected has taken the table of now."""
        version = self._table.version
        while self.not_taken(version):
            await self._progress.wait()

    def _note_progress(self) -> None:
        progress, self._progress = self._progress, anyio.Event()
        progress.set()

    async def publish(self, units: tuple[UnitRoute, ...], keys: Iterable[KeyEntry]) -> bool:
        """Send a new table, if it says anything new, and return whether it did.

        When this returns, every gateway has been sent it, or has been cut off: one that does
        not read for a second would otherwise route to what is gone.
        """
        records = key_records(keys)
        if self._whole.units == units and self._whole.keys == records:
            return False
        self._whole = Table(self._table.version + 1, units, records)
        self._table, places = fit_table(self._whole)
        self._note_left_out(frozenset((units[place].tenant, units[place].name) for place in places))
        async with anyio.create_task_group() as group:
            for gateway, channel in list(self._gateways.items()):
                group.start_soon(self._send, gateway, channel)
        return True

    def _note_left_out(self, keys: frozenset[UnitKey]) -> None:
        if keys and keys != self._left_out:
            log.error(
                "all units together are too large for gateways; the largest are refused until "
                "units are deleted or prompts are shorter units=%s",
                " ".join(f"{tenant}/{name}" for tenant, name in sorted(keys)),
            )
        self._left_out = keys

    async def _send(self, gateway: int, channel: Channel[Load]) -> None:
        try:
            with anyio.fail_after(_SEND_S):
                await channel.send(self._table)
        except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._cut_off(gateway, channel)
        except WireError as error:
            log.error("the table cannot be sent; delete units or keys problem=%s", error)
            await self._cut_off(gateway, channel)

    async def _cut_off(self, gateway: int, channel: Channel[Load]) -> None:
        self.leave(gateway)
        await channel.aclose()
