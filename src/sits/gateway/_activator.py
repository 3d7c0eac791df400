"""Requests that wait for an instance, and the instances that they wait for.

Invariants:

- First come, first served within a unit: a request that waits is never overtaken by a new one.
- At most `queue_limit` requests of a unit wait; the next is answered 429.
- One deadline governs a request's wait, also when it is tried again on another instance.
- A request counts as waiting while it is in its unit's queue and as running while it has a
  place on a link; leaving either, for whatever reason, is what changes the count.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import anyio
import anyio.abc

from sits.gateway._errors import ApiError
from sits.gateway._inbox import Inbox
from sits.gateway._workers import WorkerLink
from sits.policy import pick_instance
from sits.wire import Embed, FromWorker, Generate, RoutedInstance, Tier, UnitLoad, UnitRoute

UnitKey = tuple[str, str]
"""A unit's tenant and name."""


class Lease:
    """A request's place on an instance.

    Args:
        link: the instance's link.
        request_id: the request's id there.
        tier: how warm the instance was for this request.
    """

    def __init__(self, link: WorkerLink, request_id: str, tier: Tier) -> None:
        self.tier = tier
        self.request_id = request_id
        self._link = link
        self._answer: Inbox[FromWorker] = link.open_nowait(request_id)
        self._started = False

    def start_nowait(self, request: Generate | Embed) -> None:
        """Hand the request to the instance."""
        self._started = True
        self._link.start_nowait(request)

    async def receive(self) -> FromWorker:
        """Return the answer's next message. After one that is not `Emitted` there is none."""
        return await self._answer.get()

    def release(self) -> None:
        """Give the place back; the instance stops if the answer had not ended. Idempotent."""
        self._link.close_nowait(self.request_id, cancel=self._started)


@dataclass(eq=False)
class _Waiter:
    request_id: str
    arrived: int
    woken: anyio.Event = field(default_factory=anyio.Event)
    lease: Lease | None = None
    error: ApiError | None = None


class _Unit:
    """One unit's links and queue."""

    def __init__(self) -> None:
        self.route: UnitRoute | None = None
        self.links: dict[RoutedInstance, WorkerLink] = {}
        self.waiters: deque[_Waiter] = deque()
        self.pumping = False

    @property
    def running(self) -> int:
        return sum(link.running for link in self.links.values())

    def __bool__(self) -> bool:
        return self.route is not None or bool(self.links) or bool(self.waiters)


class Activator:
    """Gives requests their places on instances.

    Args:
        group: where links run.
        on_load: called whenever a count may have changed.
    """

    def __init__(self, group: anyio.abc.TaskGroup, on_load: Callable[[], None]) -> None:
        self._group = group
        self._on_load = on_load
        self._units: dict[UnitKey, _Unit] = {}
        self._links_seen = 0
        self._closed: Callable[[], ApiError] | None = None

    @property
    def links_seen(self) -> int:
        """A mark in time: an instance that came later was started since."""
        return self._links_seen

    def revision(self, key: UnitKey) -> str | None:
        """Return the revision that a unit's instances now serve; None: it is gone."""
        unit = self._units.get(key)
        return None if unit is None or unit.route is None else unit.route.revision

    def apply(self, routes: Iterable[UnitRoute]) -> None:
        """Take over a whole new table: connect what came, retire what went, wake who waited."""
        named = {(route.tenant, route.name): route for route in routes}
        for key in self._units.keys() - named.keys():
            self._update(key, self._units[key], None)
        for key, route in named.items():
            self._update(key, self._units.setdefault(key, _Unit()), route)
        self._on_load()

    def change(self, routes: Iterable[UnitRoute], gone: Iterable[UnitKey]) -> None:
        """Take over what a table has otherwise than the last one."""
        for key in gone:
            if (unit := self._units.get(key)) is not None:
                self._update(key, unit, None)
        for route in routes:
            key = (route.tenant, route.name)
            self._update(key, self._units.setdefault(key, _Unit()), route)
        self._on_load()

    async def acquire(
        self, key: UnitKey, request_id: str, *, arrived: int, deadline: float, again: bool = False
    ) -> Lease:
        """Return a place for a request, waiting for one if need be.

        Cancelling gives up the place in the queue (or on the instance) at once.

        Args:
            key: the unit.
            request_id: the request's id on the link, never used before.
            arrived: `links_seen` when the request came.
            deadline: until when it may wait, in the event loop's time.
            again: it lost its instance: it goes first, and is not refused for a full queue.

        Raises:
            ApiError: the unit is gone or refuses, the queue is full, or the deadline passed.
        """
        unit = self._units.get(key)
        if self._closed is not None:
            raise self._closed()
        if unit is None or unit.route is None:
            raise _gone(key)
        if unit.route.refusal is not None:
            raise _refused(unit.route)
        waiter = _Waiter(request_id, arrived)
        if again:
            unit.waiters.appendleft(waiter)
        elif not unit.waiters and (link := pick_instance(unit.links.values())) is not None:
            return self._lease(link, waiter)
        elif len(unit.waiters) >= unit.route.queue_limit:
            raise _full(unit.route)
        else:
            unit.waiters.append(waiter)
        return await self._wait(unit, waiter, deadline)

    def loads(self) -> tuple[UnitLoad, ...]:
        """Return every unit's counts. A unit not named has none."""
        # Asked for with each request, and of a thousand units nearly all have neither.
        busy = ((key, unit) for key, unit in self._units.items() if unit.waiters or unit.links)
        return tuple(
            UnitLoad(tenant, name, len(unit.waiters), running)
            for (tenant, name), unit in busy
            if (running := unit.running) or unit.waiters
        )

    def close(self, error: Callable[[], ApiError]) -> None:
        """End every wait with an error, now and from now on. What runs goes on."""
        self._closed = error
        for unit in self._units.values():
            _fail(unit.waiters, error)
        self._on_load()

    def fail_running(self, code: str, message: str) -> None:
        """End every request that runs."""
        for unit in self._units.values():
            for link in list(unit.links.values()):
                link.fail_all(code, message)

    async def _wait(self, unit: _Unit, waiter: _Waiter, deadline: float) -> Lease:
        self._pump(unit)
        self._on_load()
        try:
            with anyio.CancelScope(deadline=deadline):
                await waiter.woken.wait()
        except BaseException:
            if waiter.lease is not None:
                waiter.lease.release()
            raise
        finally:
            if not waiter.woken.is_set():
                unit.waiters.remove(waiter)
                self._on_load()
        if waiter.lease is not None:
            return waiter.lease
        raise waiter.error or _held_too_long(unit)

    def _lease(self, link: WorkerLink, waiter: _Waiter) -> Lease:
        tier = link.tier if link.number > waiter.arrived else Tier.HOT
        return Lease(link, waiter.request_id, tier)

    def _pump(self, unit: _Unit) -> None:
        """Give places to those who wait, in order, as long as there are some."""
        # Giving a place changes a count, which comes back here.
        if unit.pumping:
            return
        unit.pumping = True
        while unit.waiters and (link := pick_instance(unit.links.values())) is not None:
            waiter = unit.waiters.popleft()
            waiter.lease = self._lease(link, waiter)
            waiter.woken.set()
        unit.pumping = False

    def _update(self, key: UnitKey, unit: _Unit, route: UnitRoute | None) -> None:
        unit.route = route
        named = route.instances if route is not None else ()
        for routed in named:
            link = unit.links.get(routed)
            if link is None:
                self._connect(key, unit, routed)
            else:
                link.revive()
        for routed, link in list(unit.links.items()):
            if routed not in named:
                link.retire()
        if route is None:
            _fail(unit.waiters, lambda: _gone(key))
        elif route.refusal is not None:
            _fail(unit.waiters, lambda: _refused(route))
        self._tidy(key, unit)
        self._pump(unit)

    def _connect(self, key: UnitKey, unit: _Unit, routed: RoutedInstance) -> None:
        self._links_seen += 1

        def on_change() -> None:
            self._tidy(key, unit)
            self._pump(unit)
            self._on_load()

        link = WorkerLink(routed, self._links_seen, on_change)
        unit.links[routed] = link
        self._group.start_soon(link.run)

    def _tidy(self, key: UnitKey, unit: _Unit) -> None:
        for routed in [
            routed for routed, link in unit.links.items() if link.retired and not link.running
        ]:
            del unit.links[routed]
        if not unit and self._units.get(key) is unit:
            del self._units[key]


def _fail(waiters: deque[_Waiter], error: Callable[[], ApiError]) -> None:
    while waiters:
        waiter = waiters.popleft()
        waiter.error = error()
        waiter.woken.set()


def _gone(key: UnitKey) -> ApiError:
    return ApiError(
        404,
        "model_not_found",
        f"there is no unit named {key[1]!r}; GET /v1/models lists those that there are",
        param="model",
    )


def _refused(route: UnitRoute) -> ApiError:
    return ApiError(
        503, "unit_unavailable", f"the unit {route.name!r} cannot serve: {route.refusal}"
    )


def _full(route: UnitRoute) -> ApiError:
    return ApiError(
        429,
        "queue_full",
        f"{route.queue_limit} requests wait for the unit {route.name!r} already, which is its "
        "limit; try again in a moment",
    )


def _held_too_long(unit: _Unit) -> ApiError:
    name = unit.route.name if unit.route is not None else "?"
    hold_s = unit.route.hold_s if unit.route is not None else 0.0
    if unit.route is not None and unit.route.pending:
        return ApiError(
            503,
            "hold_timeout",
            f"the unit {name!r} was not ready within {hold_s:g} s: {unit.route.pending}; try again "
            f"later (`sits iu get {name}` tells how far it is)",
        )
    return ApiError(
        503,
        "hold_timeout",
        f"the unit {name!r} had no room within {hold_s:g} s: {len(unit.links)} instances, "
        f"{unit.running} requests running, {len(unit.waiters)} waiting; try again in a moment",
    )
