"""What gateways are told: the whole routing table at first, then each change of it.

Invariants: versions increase, also over restarts (the high bits count control's starts); only
ready instances are in it; a unit at zero instances is in it, since its endpoint stays. A table
that was sent is true at a gateway when the gateway says so: `wait_taken` waits for that.
"""

import logging
from collections.abc import Iterable, Mapping

import anyio

from sits.control._lifecycle import State
from sits.control._room import MAX_TABLE_BYTES, Room, fit_table, key_records
from sits.control._settings import Settings
from sits.control._status import unit_pending, unit_refusal
from sits.control._tracked import TrackedInstance
from sits.control._wanted import UnitKey, Wanted
from sits.control._world import World
from sits.store import KeyEntry
from sits.wire import (
    Channel,
    FromControl,
    KeyRecord,
    Load,
    RoutedInstance,
    Table,
    TablePatch,
    UnitRoute,
    WireError,
)

_Place = tuple[str, str]  # (host, tenant)
_Reasons = tuple[str | None, str | None]
_Basis = tuple[Wanted, tuple[RoutedInstance, ...], str | None, str | None]

_EPOCH_BITS = 32
_SEND_S = 1.0

log = logging.getLogger(__name__)


class Routes:
    """Makes the routes of units, each anew only when something in it may have changed.

    Args:
        world: what is observed.
        settings: how long requests are held, and how many.
    """

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._made: dict[UnitKey, tuple[_Basis, UnitRoute]] = {}

    def make(self, wanted: Iterable[Wanted], now_s: float) -> dict[UnitKey, UnitRoute]:
        """Return the routes of all units that are not being deleted."""
        made: dict[UnitKey, tuple[_Basis, UnitRoute]] = {}
        alike: dict[_Place, _Reasons] = {}
        for unit in wanted:
            if unit.deleted:
                continue
            instances = _instances(self._world, unit)
            basis = (unit, instances, *self._reasons(unit, now_s, alike))
            former = self._made.get(unit.key)
            same = former is not None and former[0][0] is unit and former[0][1:] == basis[1:]
            made[unit.key] = former if former and same else (basis, self.make_one(*basis))
        self._made = made
        return {key: route for key, (_, route) in made.items()}

    def _reasons(self, unit: Wanted, now_s: float, alike: dict[_Place, _Reasons]) -> _Reasons:
        """Return why a unit cannot serve, and what it waits for.

        Args:
            unit: which.
            now_s: the monotonic time now.
            alike: what was found in this turn, by host and tenant; changed. Units with nothing of
                their own, as most of a thousand are, share it: each turn is that much shorter.
        """
        world, release = self._world, unit.current
        has_own = unit.key in world.scales or world.has_instances(unit.key)
        if has_own or release.host is None or release.problem:
            return unit_refusal(world, unit, now_s), unit_pending(world, unit)
        place = release.host, release.tenant
        if place not in alike:
            alike[place] = unit_refusal(world, unit, now_s), unit_pending(world, unit)
        return alike[place]

    def make_one(
        self,
        unit: Wanted,
        instances: tuple[RoutedInstance, ...] = (),
        refusal: str | None = None,
        pending: str | None = None,
    ) -> UnitRoute:
        """Return a unit's route, given its instances, why it cannot serve and what it waits for."""
        release = unit.current
        prompt = release.unit.prompt if release.unit else None
        return UnitRoute(
            name=unit.name,
            tenant=unit.tenant,
            revision=release.revision,
            created_s=int(unit.created_s),
            system=prompt.system if prompt else None,
            template=prompt.template if prompt else None,
            instances=instances,
            refusal=refusal,
            hold_s=self._settings.hold_s,
            queue_limit=self._settings.queue_limit,
            kind=release.kind,
            pending=pending,
        )


def _instances(world: World, unit: Wanted) -> tuple[RoutedInstance, ...]:
    if not world.has_instances(unit.key):
        return ()
    release = unit.current
    return tuple(
        routed
        for item in world.instances_of(unit.key)
        if not item.is_canary and item.serves(release) and (routed := _routed(item))
    )


def _routed(item: TrackedInstance) -> RoutedInstance | None:
    if item.life.state is not State.READY or item.value is None:
        return None
    return RoutedInstance(item.name, item.value.endpoint, item.value.tier, item.value.capacity)


class Publisher:
    """Gives every connected gateway the newest table: whole at first, then what changes."""

    def __init__(self, epoch: int) -> None:
        self.room = Room()
        self._whole: dict[UnitKey, UnitRoute] = {}
        self._table = Table(epoch << _EPOCH_BITS, (), ())
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
        await self._send(gateway, channel, self._table)
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

    async def publish(self, routes: Mapping[UnitKey, UnitRoute], keys: Iterable[KeyEntry]) -> bool:
        """Send what is new, if anything is, and return whether it was.

        When this returns, every gateway has been sent it, or has been cut off: one that does
        not read for a second would otherwise route to what is gone.
        """
        message = self._advance(routes, key_records(keys))
        if message is None:
            return False
        async with anyio.create_task_group() as group:
            for gateway, channel in list(self._gateways.items()):
                group.start_soon(self._send, gateway, channel, message)
        return True

    def _advance(
        self, routes: Mapping[UnitKey, UnitRoute], keys: tuple[KeyRecord, ...]
    ) -> FromControl | None:
        """Take over new routes, and return what gateways are to be told of them."""
        former, base = self._whole, self._table
        changed = {
            key: route
            for key, route in routes.items()
            if (old := former.get(key)) is not route and old != route
        }
        gone = former.keys() - routes.keys()
        if not changed and not gone and keys == base.keys:
            return None
        self._whole = dict(routes)
        self.room.update(changed.values(), gone)
        self.room.set_keys(keys)
        self._table = Table(base.version + 1, tuple(routes.values()), keys)
        if self.room.taken_bytes > MAX_TABLE_BYTES or self._left_out:
            return self._fit()
        return TablePatch(
            self._table.version,
            base.version,
            tuple(changed.values()),
            tuple(gone),
            keys if keys != base.keys else None,
        )

    def _fit(self) -> Table:
        units = self._table.units
        self._table, places = fit_table(self._table)
        self._note_left_out(frozenset((units[place].tenant, units[place].name) for place in places))
        return self._table

    def _note_left_out(self, keys: frozenset[UnitKey]) -> None:
        if keys and keys != self._left_out:
            log.error(
                "all units together are too large for gateways; the largest are refused until "
                "units are deleted or prompts are shorter units=%s",
                " ".join(f"{tenant}/{name}" for tenant, name in sorted(keys)),
            )
        self._left_out = keys

    async def _send(self, gateway: int, channel: Channel[Load], message: FromControl) -> None:
        try:
            with anyio.fail_after(_SEND_S):
                await channel.send(message)
        except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._cut_off(gateway, channel)
        except WireError as error:
            log.error("the table cannot be sent; delete units or keys problem=%s", error)
            await self._cut_off(gateway, channel)

    async def _cut_off(self, gateway: int, channel: Channel[Load]) -> None:
        self.leave(gateway)
        await channel.aclose()
