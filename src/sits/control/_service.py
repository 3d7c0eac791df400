"""Control as a running service: the loop, the store, and what the API does to them.

Invariants: one task group owns everything; only the loop makes plans; a store that fails for a
while ends nothing, and what runs goes on. The store is read and written on this thread: its
transactions take milliseconds, and another process's lock is waited for a fifth of a second (a
PostgreSQL that hangs, up to ten seconds; no request to a unit waits for any of it).
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc

from sits.control._actions import Limits, Plan
from sits.control._api import make_app
from sits.control._apply import apply_plan
from sits.control._clock import Clock, SystemClock, wait_until
from sits.control._keys import ensure_local_key
from sits.control._links import Links
from sits.control._memory import MachineMemory, read_memory
from sits.control._models import Models, ModelSource, PullEnd
from sits.control._names import Names
from sits.control._plan import make_plan
from sits.control._server import serve_app
from sits.control._settings import Settings
from sits.control._source import StoreSource
from sits.control._table import Publisher, Routes
from sits.control._units import Units
from sits.control._world import World
from sits.models import ModelStore
from sits.store import Store, StoreError, open_store
from sits.wire import Channel, Load, ToControl, WireError, serve

STORE_FILE = "sits.db"
_SETTLE_S = 1.0
_STORE_RETRY_S = 1.0
_SOON_S = 0.05
_PIN_RETRY_S = 30.0
_EVENTS_S = 0.5
_KEEP_EVENTS_S = 7 * 24 * 3600.0  # of units that are gone
_FORGET_S = 3600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Deps:
    """What control is given to work with, so that tests can give it something else."""

    clock: Clock = field(default_factory=SystemClock)
    make_source: Callable[[Settings], ModelSource] = lambda settings: StoreSource(
        ModelStore(settings.models_path, prepare=settings.prepare)
    )
    read_memory: Callable[[], MachineMemory | None] = read_memory


async def run(
    settings: Settings,
    deps: Deps | None = None,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Run control until cancelled. `task_status` is started when the API and the link listen.

    Args:
        settings: where everything is.
        deps: the clock, and what finds models.
        task_status: anyio's.

    Raises:
        StoreError, KeyFileError: it cannot start; the message says what to do.
    """
    deps = deps or Deps()
    home = Path(settings.home)
    store = open_store(home / STORE_FILE, settings.store_url)
    try:
        ensure_local_key(store, home, deps.clock.unix_s())
        async with anyio.create_task_group() as group:
            control = _Control(settings, deps, store)
            await control.turn()  # gateways are served a true table from the first one on
            await group.start(_serve_link, settings.control_socket, control.serve_gateway)
            app = make_app(
                control.units,
                control.platform_status,
                control.settle,
                log_dir=settings.log_path,
            )
            await group.start(serve_app, app, settings.api_socket)
            group.start_soon(control.links.run_node, settings.node_socket)
            group.start_soon(control.models.run)
            group.start_soon(control.run_pins)
            group.start_soon(control.run_events)
            group.start_soon(control.run_soon)
            group.start_soon(control.run_loop)
            log.info("control runs api=%s link=%s", settings.api_socket, settings.control_socket)
            task_status.started()
    finally:
        store.close()


async def _serve_link(
    path: str,
    handler: Callable[[Channel[Load]], Awaitable[None]],
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    await serve(path, ToControl, handler, task_status=task_status)


class _Control:
    def __init__(self, settings: Settings, deps: Deps, store: Store) -> None:
        self._settings = settings
        self._clock = deps.clock
        self._read_memory = deps.read_memory
        self._store = store
        self._world = World()
        epoch = store.next_epoch()
        self._publisher = Publisher(epoch)
        self._limits = Limits(
            idle_s=settings.idle_s,
            drain_s=settings.instance_drain_s,
            start_s=settings.start_s,
            load_s=settings.load_s,
            make_name=Names(epoch),
            cool_s=settings.cool_s,
            memory_reserve=settings.memory_reserve,
        )
        self._event = anyio.Event()
        self._soon = anyio.Event()
        self._turns = 0
        self._published_turn = 0
        self._published = anyio.Event()
        self._started_s = deps.clock.unix_s()
        self._start_s = deps.clock.monotonic_s()
        self._routes = Routes(self._world, settings)
        self._host_failures = 0
        self.models = Models(
            deps.make_source(settings), Path(settings.home), deps.clock, self._on_pull
        )
        self.units = Units(
            store,
            self._world,
            deps.clock,
            self.models,
            self._publisher.room,
            settings,
            self.wake,
        )
        self.links = Links(self._world, deps.clock, self.wake, settings.prompts_dir)

    def wake(self) -> None:
        self._event.set()

    def _on_pull(self, end: PullEnd) -> None:
        self.units.on_pull(end)

    async def run_pins(self) -> None:
        """Pin the models of revisions that an older version deployed, when one comes up."""
        catalog = self.units.catalog
        while True:
            try:
                done = await catalog.pin_all()
            except StoreError as error:
                log.warning("models are not pinned yet problem=%s", error)
                done = False
            if done:
                await catalog.unpinned.wait()
            else:
                await self._clock.sleep_until(self._clock.monotonic_s() + _PIN_RETRY_S)

    async def run_events(self) -> None:
        """Write down what happened, soon: one transaction for many notes."""
        forget_s = 0.0
        while True:
            try:
                self.units.flush_notes()
                if self._clock.monotonic_s() >= forget_s:
                    self._store.forget_events(self._clock.unix_s() - _KEEP_EVENTS_S)
                    forget_s = self._clock.monotonic_s() + _FORGET_S
            except StoreError as error:
                log.warning("events are not written yet problem=%s", error)
            await self._clock.sleep_until(self._clock.monotonic_s() + _EVENTS_S)

    async def run_soon(self) -> None:
        """Wake the loop a little after what is not urgent: once for all that comes meanwhile."""
        while True:
            await self._soon.wait()
            await anyio.sleep(_SOON_S)
            self._soon = anyio.Event()
            self.wake()

    async def run_loop(self) -> None:
        while True:
            self._event = anyio.Event()
            try:
                due_s = await self.turn()
            except StoreError as error:
                if not error.retryable:
                    raise
                log.warning("the store fails; what runs goes on problem=%s", error)
                due_s = self._clock.monotonic_s() + _STORE_RETRY_S
            await wait_until(self._clock, self._event, due_s)

    async def turn(self) -> float | None:
        """Compare, change the world, tell the gateways, send; return when to do so again."""
        self._turns += 1
        turn, now_s = self._turns, self._clock.monotonic_s()
        # All that is read is read before the plan is taken over: the store may fail here.
        if self._world.host_failures != self._host_failures:  # its model's file may be gone
            self._host_failures = self._world.host_failures
            self.units.catalog.invalidate()
        keys = self.units.catalog.keys()
        self._world.machine = self._read_memory()
        plan = self._plan(now_s)
        wanted = tuple(self.units.catalog.wanted())
        apply_plan(self._world, plan, now_s)
        self._purge(plan, now_s)
        routes = self._routes.make(wanted, now_s)
        await self._publisher.publish(routes, keys)
        self._world.left_out = self._publisher.left_out
        self._published_turn = turn
        published, self._published = self._published, anyio.Event()
        published.set()
        for order in plan.orders:
            await self.links.send(order)
        return plan.due_s

    def _plan(self, now_s: float) -> Plan:
        """Make a plan, in which what is to take traffic does."""
        plan = make_plan(self._world, self.units.catalog.wanted(), self._limits, now_s)
        if not plan.promote and not plan.revert and not plan.prove:
            return plan
        try:
            self.units.promote(plan.promote)
            self.units.revert(plan.revert)
            self.units.prove(plan.prove)
        except StoreError as error:
            if not error.retryable:
                raise
            # All goes on as it is; what takes traffic changes later.
            log.warning("what takes traffic cannot be changed yet problem=%s", error)
            plan.note_due(now_s + _STORE_RETRY_S)
            return plan
        if not plan.promote and not plan.revert:
            return plan
        return make_plan(self._world, self.units.catalog.wanted(), self._limits, now_s)

    def _purge(self, plan: Plan, now_s: float) -> None:
        try:
            self.units.purge(plan.purge)
        except StoreError as error:
            # They go later; the rest of the plan has been taken over and must be carried out.
            log.warning("deleted units are not purged yet problem=%s", error)
            plan.note_due(now_s + _STORE_RETRY_S)

    async def serve_gateway(self, channel: Channel[Load]) -> None:
        gateway = await self._publisher.join(channel)
        try:
            async for load in channel:
                self._world.set_load(gateway, load)
                self._publisher.taken(gateway, load.table_version)
                if any(unit.waiting for unit in load.units):
                    self.wake()
                else:  # nobody waits for what is decided; many such come in a busy second
                    self._soon.set()
        except WireError as error:
            log.warning("link to a gateway broke error=%s", error)
        finally:
            self._publisher.leave(gateway)
            self._world.forget_gateway(gateway)
            self.wake()

    async def settle(self) -> None:
        """Return when what was changed until now is true at every gateway, or after a second."""
        if not self._publisher.gateway_count:
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._give_up, self._clock.monotonic_s() + _SETTLE_S, group)
            turn = self._turns + 1  # the one under way may have read the store before the change
            while self._published_turn < turn:
                await self._published.wait()
            await self._publisher.wait_taken()
            group.cancel_scope.cancel()

    async def _give_up(self, when_s: float, group: anyio.abc.TaskGroup) -> None:
        await self._clock.sleep_until(when_s)
        log.warning(
            "a change was answered before every gateway had taken it after_s=%g version=%d "
            "not_taken=%d",
            _SETTLE_S,
            self._publisher.version,
            self._publisher.not_taken(self._publisher.version),
        )
        group.cancel_scope.cancel()

    def platform_status(self, tenant: str) -> dict[str, object]:
        """What `GET /api/v1/status` tells a tenant: nothing of what is others' alone."""
        own = [unit for unit in self.units.catalog.wanted() if unit.tenant == tenant]
        instances = [item for item in self._world.instances.values() if item.tenant == tenant]
        paths = {
            release.host: str(release.model.path)
            for unit in own
            for release in unit.releases
            if release.model
        }
        used = paths.keys() | {item.host for item in instances}
        return {
            "started_s": self._started_s,
            "uptime_s": round(self._clock.monotonic_s() - self._start_s, 3),
            "table_version": self._publisher.version,
            "gateways": self._publisher.gateway_count,
            "node_connected": self._world.node_connected,
            "hosts": [
                {"name": host.name, "model_path": paths.get(host.name), "state": host.life.state}
                for host in self._world.hosts.values()
                if host.name in used
            ],
            "instances": [
                {"name": item.name, "unit": item.unit, "state": item.life.state}
                for item in instances
            ],
        }
