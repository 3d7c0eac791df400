"""A gateway on a real port, a fake control and fake workers, in one event loop."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from sits import gateway
from sits.wire import Channel, Load, Table, ToControl, UnitRoute, serve
from tests.unit.gateway.support import FakeWorker, make_settings, make_table


class FakeControl:
    """Pushes tables to whoever connects and remembers the loads that it is sent."""

    def __init__(self, path: Path) -> None:
        self.loads: list[Load] = []
        self.links: list[Channel[ToControl]] = []
        self._path = path
        self._table: Table | None = None
        self._changed = anyio.Event()

    async def run(self, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        await serve(str(self._path), ToControl, self._handle, task_status=task_status)

    async def push(self, *routes: UnitRoute) -> None:
        version = self._table.version + 1 if self._table else 1
        self._table = make_table(*routes, version=version)
        for link in self.links:
            await link.send(self._table)

    async def lose_links(self) -> None:
        """Be as one that was started anew, and has no table yet."""
        self._table = None
        for link in list(self.links):
            await link.aclose()
        self.links.clear()

    async def until(self, *units: tuple[str, int, int]) -> None:
        """Wait until the last load is this: names, each with waiting and running."""
        expected = {name: (waiting, running) for name, waiting, running in units}
        await self._until(lambda: bool(self.loads) and self._last() == expected)

    async def until_taken(self) -> None:
        """Wait until the last load says that the gateway has the last table."""
        assert self._table is not None
        version = self._table.version
        await self._until(lambda: bool(self.loads) and self.loads[-1].table_version == version)

    async def _until(self, seen: Callable[[], bool]) -> None:
        with anyio.fail_after(5):
            while not seen():
                self._changed = anyio.Event()
                await self._changed.wait()

    def _last(self) -> dict[str, tuple[int, int]]:
        return {load.unit: (load.waiting, load.running) for load in self.loads[-1].units}

    async def _handle(self, channel: Channel[ToControl]) -> None:
        self.links.append(channel)
        if self._table is not None:
            await channel.send(self._table)
        async for load in channel:
            self.loads.append(load)
            self._changed.set()
        if channel in self.links:
            self.links.remove(channel)


class Platform:
    """What a test drives."""

    def __init__(self, control: FakeControl, stop: anyio.Event) -> None:
        self.control = control
        self.stop = stop
        self.port = 0
        self.ended = anyio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def platform(
    folder: Path, *routes: UnitRoute, workers: Iterable[FakeWorker] = (), **settings: Any
) -> AsyncIterator[Platform]:
    """Run everything; yields once the gateway has its table."""
    it = Platform(FakeControl(folder / "control"), anyio.Event())

    async def run(*, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        made = make_settings(folder, **settings)
        await gateway.run(made, stop=it.stop, task_status=task_status)
        it.ended.set()

    async with anyio.create_task_group() as group:
        await group.start(it.control.run)
        for worker in workers:
            await group.start(worker.run)
        await it.control.push(*routes)
        it.port = await group.start(run)
        await it.control.until()
        yield it
        group.cancel_scope.cancel()
