"""A node, a host and a gateway that speak the wire, a clock that stands still, and a record.

Everything runs in one event loop. Nothing waits for time to pass: `Record.until` wakes at each
thing that is recorded, and gives up after five real seconds.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2

from sits.control import Deps, Settings, run
from sits.control._memory import MachineMemory
from sits.testing import FakeModels
from sits.wire import (
    Channel,
    CloseTemplate,
    FromControl,
    HostDown,
    HostReady,
    HostUp,
    Instance,
    InstanceGone,
    InstanceReady,
    Load,
    OpenTemplate,
    StartHost,
    StartInstance,
    StopHost,
    StopInstance,
    Table,
    TablePatch,
    TemplateClosed,
    TemplateReady,
    Tier,
    ToHost,
    ToNode,
    UnitLoad,
    UnitRoute,
    connect,
    serve,
)

GIVE_UP_S = 5.0
CAPACITY = 4


class VirtualClock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.unix_offset_s = 1_800_000_000.0
        self._moved = anyio.Event()

    def monotonic_s(self) -> float:
        return self.now_s

    def unix_s(self) -> float:
        return self.unix_offset_s + self.now_s

    async def sleep_until(self, when_s: float) -> None:
        while self.now_s < when_s:
            await self._moved.wait()

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        moved, self._moved = self._moved, anyio.Event()
        moved.set()


class Record:
    """What was said, in order, by everyone."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self._changed = anyio.Event()

    def add(self, entry: Any) -> None:
        self.entries.append(entry)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def of(self, kind: type[Any]) -> list[Any]:
        return [entry for entry in self.entries if isinstance(entry, kind)]

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(GIVE_UP_S):
            while not holds():
                await self._changed.wait()


@dataclass
class FakeHost:
    """Makes everything at once, unless it is told to hold, fail or ignore some of it."""

    record: Record
    directory: Path
    hold_starts: bool = False
    fail_starts: bool = False
    ignore_stops: bool = False
    channels: list[Channel[Any]] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    orders: dict[str, StartInstance] = field(default_factory=dict)
    running: dict[str, InstanceReady] = field(default_factory=dict)

    async def handle(self, channel: Channel[Any]) -> None:
        self.channels.append(channel)
        await channel.send(HostReady(tuple(self.templates), tuple(self.running.values())))
        async for message in channel:
            self.record.add(message)
            match message:
                case OpenTemplate(tenant=tenant):
                    self.templates.append(tenant)
                    await channel.send(TemplateReady(tenant))
                case CloseTemplate(tenant=tenant):
                    self.templates.remove(tenant)
                    await channel.send(TemplateClosed(tenant))
                case StartInstance(instance=name):
                    self.orders[name] = message
                    if self.fail_starts:
                        await channel.send(InstanceGone(name, "start_failed", "no memory"))
                    elif not self.hold_starts:
                        await self.finish_start(name)
                case StopInstance(instance=name) if not self.ignore_stops:
                    self.running.pop(name, None)
                    await channel.send(InstanceGone(name, "stopped", ""))

    async def finish_start(self, name: str) -> None:
        endpoint = str(self.directory / f"{name}.sock")
        value = Instance(endpoint, Tier.WARM, CAPACITY)
        order = self.orders[name]
        self.running[name] = InstanceReady(name, order.tenant, order.unit, value)
        await self.channels[-1].send(self.running[name])


class FakeNode:
    """Starts fake hosts, in this event loop."""

    def __init__(self, record: Record, directory: Path, group: anyio.abc.TaskGroup) -> None:
        self.record = record
        self.hosts: dict[str, FakeHost] = {}
        self.host_starts_hold = False
        self._directory = directory
        self._group = group
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._channel: Channel[Any] | None = None

    async def handle(self, channel: Channel[Any]) -> None:
        self._channel = channel
        for name in self._scopes:
            await channel.send(HostUp(name, self._endpoint(name)))
        async for message in channel:
            self.record.add(message)
            match message:
                case StartHost(host=name):
                    await self._start(name)
                case StopHost(host=name):
                    await self.end_host(name, "stopped")

    async def _start(self, name: str) -> None:
        endpoint = self._endpoint(name)
        if name not in self._scopes:
            self.hosts[name] = FakeHost(self.record, self._directory, self.host_starts_hold)
            await self._group.start(self._serve_host, name, endpoint)
        assert self._channel is not None
        await self._channel.send(HostUp(name, endpoint))

    def _endpoint(self, name: str) -> str:
        return str(self._directory / f"{name}.sock")

    async def _serve_host(
        self,
        name: str,
        endpoint: str,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[name] = scope
            await serve(endpoint, ToHost, self.hosts[name].handle, task_status=task_status)

    async def end_host(self, name: str, message: str) -> None:
        if scope := self._scopes.pop(name, None):
            scope.cancel()
        assert self._channel is not None
        await self._channel.send(HostDown(name, message))


class FakeGateway:
    """Records the tables that it is sent and acknowledges them; says what load it is told to."""

    def __init__(self, channel: Channel[Any], record: Record) -> None:
        self.acknowledges = True
        self._channel = channel
        self._record = record
        self.patches: list[TablePatch] = []
        self._table: Table | None = None
        self._load = Load(())

    async def read(self) -> None:
        async with self._channel:
            async for message in self._channel:
                self._record.add(self._apply(message))
                if self.acknowledges:
                    with contextlib.suppress(anyio.ClosedResourceError):  # it has left
                        await self.acknowledge()

    def _apply(self, message: Table | TablePatch) -> Table:
        """Return the whole table that a message makes true."""
        if isinstance(message, Table):
            self._table = message
            return message
        self.patches.append(message)
        former = self._table
        assert former is not None
        assert message.base == former.version
        units = {(unit.tenant, unit.name): unit for unit in former.units}
        for key in message.gone:
            del units[key]
        units |= {(unit.tenant, unit.name): unit for unit in message.units}
        keys = former.keys if message.keys is None else message.keys
        self._table = Table(message.version, tuple(units.values()), keys)
        return self._table

    async def acknowledge(self, version: int | None = None) -> None:
        newest = self._record.of(Table)[-1].version
        await self._send(Load(self._load.units, newest if version is None else version))

    async def say(self, waiting: int = 0, running: int = 0, unit: str = "chat") -> None:
        units = (UnitLoad("default", unit, waiting, running),)
        await self._send(Load(units, self._load.table_version))

    async def _send(self, load: Load) -> None:
        self._load = load
        await self._channel.send(load)

    async def leave(self) -> None:
        await self._channel.aclose()

    def route(self, unit: str = "chat") -> UnitRoute | None:
        tables = self._record.of(Table)
        routes = tables[-1].units if tables else ()
        return next((route for route in routes if route.name == unit), None)

    def serving(self, unit: str = "chat") -> list[str]:
        route = self.route(unit)
        return [item.instance for item in route.instances] if route else []


@dataclass
class Platform:
    """A running control with everything around it."""

    settings: Settings
    clock: VirtualClock
    record: Record
    node: FakeNode
    api: httpx2.AsyncClient
    group: anyio.abc.TaskGroup
    models: FakeModels = field(default_factory=FakeModels)
    control: anyio.CancelScope | None = None
    memory: MachineMemory | None = None

    async def start_control(self) -> None:
        await self.group.start(self._run_control)

    async def _run_control(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.CancelScope() as self.control:
            await run(
                self.settings,
                Deps(self.clock, lambda settings: self.models, lambda: self.memory),
                task_status=task_status,
            )
        self.record.add("control ended")

    async def end_control(self) -> None:
        assert self.control is not None
        self.control.cancel()
        await self.record.until(lambda: "control ended" in self.record.entries)

    async def gateway(self) -> FakeGateway:
        channel = await connect(self.settings.control_socket, FromControl)
        gateway = FakeGateway(channel, self.record)
        self.group.start_soon(gateway.read)
        await self.record.until(lambda: bool(self.record.of(Table)))
        return gateway

    async def deploy(self, **fields: Any) -> httpx2.Response:
        unit = {"name": "chat", "model": "builtin://small", **fields}
        return await self.api.post("/api/v1/units", json=unit)

    def host(self) -> FakeHost:
        return next(iter(self.node.hosts.values()))


@contextlib.contextmanager
def short_directory() -> Iterator[Path]:
    """Give a directory whose sockets' paths are short enough (107 bytes)."""
    with tempfile.TemporaryDirectory(prefix="sits-") as name:
        yield Path(name)


def make_settings(directory: Path, **changes: Any) -> Settings:
    return Settings(
        home=str(directory / "home"),
        node_socket=str(directory / "node.sock"),
        control_socket=str(directory / "control.sock"),
        api_socket=str(directory / "api" / "api.sock"),
        parent_pid=1,
        public_url="http://127.0.0.1:7480",
        **changes,
    )


@contextlib.asynccontextmanager
async def platform(directory: Path, **changes: Any) -> AsyncIterator[Platform]:
    """Run control among fakes."""
    settings, clock, record = make_settings(directory, **changes), VirtualClock(), Record()
    async with anyio.create_task_group() as group:
        node = FakeNode(record, directory, group)
        await group.start(serve, settings.node_socket, ToNode, node.handle)
        transport = httpx2.AsyncHTTPTransport(uds=settings.api_socket)
        headers = {"x-sits-tenant": "default"}
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://control", headers=headers
        ) as api:
            up = Platform(settings, clock, record, node, api, group)
            await up.start_control()
            yield up
        group.cancel_scope.cancel()
