"""Control as a running service: the loop, the store, and what the API does to them.

Invariants: one task group owns everything; only the loop makes plans; the store is read and
written on this thread (its transactions take milliseconds, and no request waits for them).
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc

from sits.control._api import make_app
from sits.control._apply import apply_plan
from sits.control._clock import Clock, SystemClock
from sits.control._keys import ensure_local_key
from sits.control._links import Links
from sits.control._names import Names
from sits.control._plan import Limits, make_plan
from sits.control._server import serve_app
from sits.control._settings import Settings
from sits.control._table import Publisher, make_routes
from sits.control._units import Resolve, Units
from sits.control._world import World
from sits.models import resolve
from sits.store import Store, open_store
from sits.wire import Channel, Load, ToControl, WireError, serve

STORE_FILE = "sits.db"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Deps:
    """What control is given to work with, so that tests can give it something else."""

    clock: Clock = field(default_factory=SystemClock)
    resolve: Resolve = resolve


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
    store = open_store(home / STORE_FILE)
    try:
        ensure_local_key(store, home, deps.clock.unix_s())
        async with anyio.create_task_group() as group:
            control = _Control(settings, deps, store)
            await control.turn()  # gateways are served a true table from the first one on
            await group.start(_serve_link, settings.control_socket, control.serve_gateway)
            app = make_app(control.units, control.platform_status)
            await group.start(serve_app, app, settings.api_socket)
            group.start_soon(control.links.run_node, settings.node_socket)
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
        self._world = World()
        epoch = store.next_epoch()
        self._publisher = Publisher(epoch)
        self._limits = Limits(settings.idle_s, settings.drain_s, Names(epoch))
        self._event = anyio.Event()
        self._started_s = deps.clock.unix_s()
        self.units = Units(
            store, self._world, deps.clock, deps.resolve, settings=settings, wake=self.wake
        )
        self.links = Links(self._world, deps.clock, self.wake)

    def wake(self) -> None:
        self._event.set()

    async def run_loop(self) -> None:
        while True:
            self._event = anyio.Event()
            due_s = await self.turn()
            await self._wait(due_s)

    async def turn(self) -> float | None:
        """Compare, change the world, tell the gateways, send; return when to do so again."""
        now_s = self._clock.monotonic_s()
        wanted = self.units.wanted()
        plan = make_plan(self._world, wanted, self._limits, now_s)
        apply_plan(self._world, plan)
        self.units.purge(plan.purge)
        routes = make_routes(self._world, wanted, self._settings, now_s)
        await self._publisher.publish(routes, self.units.keys())
        for order in plan.orders:
            await self.links.send(order)
        return plan.due_s

    async def _wait(self, due_s: float | None) -> None:
        if due_s is None:
            await self._event.wait()
            return
        async with anyio.create_task_group() as group:

            async def wake_when_due() -> None:
                await self._clock.sleep_until(due_s)
                self.wake()

            group.start_soon(wake_when_due)
            await self._event.wait()
            group.cancel_scope.cancel()

    async def serve_gateway(self, channel: Channel[Load]) -> None:
        gateway = await self._publisher.join(channel)
        try:
            async for load in channel:
                self._world.set_load(gateway, load)
                self.wake()
        except WireError as error:
            log.warning("link to a gateway broke error=%s", error)
        finally:
            self._publisher.leave(gateway)
            self._world.forget_gateway(gateway)
            self.wake()

    def platform_status(self) -> dict[str, object]:
        """What `GET /api/v1/status` tells, besides the units."""
        paths = {unit.host: str(unit.model.path) for unit in self.units.wanted() if unit.model}
        return {
            "started_s": self._started_s,
            "uptime_s": round(self._clock.unix_s() - self._started_s, 3),
            "table_version": self._publisher.version,
            "gateways": self._publisher.gateway_count,
            "node_connected": self._world.node_connected,
            "hosts": [
                {"name": host.name, "model_path": paths.get(host.name), "state": host.life.state}
                for host in self._world.hosts.values()
            ],
            "instances": [
                {"name": item.name, "unit": item.unit, "state": item.life.state}
                for item in self._world.instances.values()
            ],
        }
