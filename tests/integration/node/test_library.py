"""Model hosts are forked from a library host, and what becomes of them when it ends."""

import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from sits.node._hosts import Hosts
from sits.node._library import Library
from sits.node._plan import HostPlan
from sits.testing import tiny_gguf
from sits.wire import (
    FromHost,
    FromNode,
    HostDown,
    HostReady,
    HostUp,
    StartHost,
    StopHost,
    ToNode,
    connect,
    serve,
)
from tests.links import wait_for
from tests.processes import children, descendants, is_running

pytestmark = pytest.mark.anyio
GIVE_UP_S = 15.0


@dataclass
class Node:
    """Hosts with a library host, and control's end of their link."""

    directory: Path
    hosts: Hosts
    library: Library
    channel: Any
    events: Any

    async def start(self, name: str = "h-model", path: str = "unused") -> str:
        """Start a host, wait until it has loaded, and return where it listens."""
        await self.channel.send(StartHost(name, path))
        up = await anext(self.events)
        assert isinstance(up, HostUp)
        assert await loads(up.endpoint)
        return up.endpoint

    async def down(self) -> HostDown:
        with anyio.fail_after(GIVE_UP_S):
            event = await anext(self.events)
        assert isinstance(event, HostDown)
        return event

    def only(self, name: str) -> int:
        """Return the id of the one process below this one that is called so."""
        (pid,) = descendants(os.getpid()).get(name, [])
        return pid

    async def library_runs(self) -> int:
        def find() -> int | None:
            return next(iter(descendants(os.getpid()).get("sits-library", [])), None)

        return await anyio.to_thread.run_sync(wait_for, find, "no library host came up")


def read_proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_bytes().decode()


def open_files(pid: int) -> list[str]:
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


async def loads(endpoint: str) -> bool:
    with anyio.fail_after(GIVE_UP_S):
        while True:
            try:
                async with await connect(endpoint, FromHost) as host:
                    return isinstance(await anext(aiter(host)), HostReady)
            except OSError:
                await anyio.sleep(0.01)


@contextlib.asynccontextmanager
async def node(engine: str = "sits.testing:load_fake") -> AsyncIterator[Node]:
    with tempfile.TemporaryDirectory(prefix="sits-") as name:
        directory = Path(name)
        plan = HostPlan(name, directory, directory / "secrets", engine, 2, 256)
        async with anyio.create_task_group() as tasks:
            library = Library(plan, tasks)
            tasks.start_soon(library.run)
            hosts = Hosts(plan, tasks, lambda: None, library)
            await tasks.start(serve, f"{name}/node.sock", ToNode, hosts.serve)
            async with await connect(f"{name}/node.sock", FromNode) as channel:
                running = Node(directory, hosts, library, channel, aiter(channel))
                await running.library_runs()
                yield running
            await hosts.stop()
            tasks.cancel_scope.cancel()


async def test_a_host_is_a_fork_of_the_library_host_with_a_session_and_a_log_of_its_own() -> None:
    async with node() as running:
        await running.start()
        library, host = running.only("sits-library"), running.only("sits-host")
        assert children(library) == [host]
        assert os.getsid(host) == host
        assert "serving unused" in (running.directory / "h-model.log").read_text()
        assert "serving unused" not in (running.directory / "library.log").read_text()
        assert (running.directory / "h-model.log").stat().st_mode & 0o777 == 0o600


async def test_a_host_has_none_of_what_the_library_host_holds_open() -> None:
    async with node() as running:
        await running.start("h-one")
        await running.start("h-two")
        for host in descendants(os.getpid())["sits-host"]:
            assert not any("pidfd" in link for link in open_files(host))
            # The listener alone: not the library's link, and ours are closed when it sees that.
            await anyio.to_thread.run_sync(
                wait_for,
                lambda: sum(link.startswith("socket:") for link in open_files(host)) == 1,  # noqa: B023
                "more sockets than the listener",
            )


async def test_neither_has_a_secret_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITS_SECRET_MODELS", "sk-not-for-anybody")
    monkeypatch.setenv("SITS_STORE_URL", "postgresql://me:sk-not-for-anybody@db")
    async with node() as running:
        await running.start()
        for name in ("sits-library", "sits-host"):
            assert "sk-not-for-anybody" not in read_proc(running.only(name), "environ")


async def test_a_host_that_is_told_to_stop_ends_and_leaves_the_library_host() -> None:
    async with node() as running:
        endpoint = await running.start()
        library = running.only("sits-library")
        await running.channel.send(StopHost("h-model"))
        down = await running.down()
        assert down.message.startswith("exit status 0")
        assert not await anyio.Path(endpoint).exists()
        assert is_running(library)
        assert children(library) == []  # it is collected


async def test_a_host_that_cannot_load_says_why_with_its_end() -> None:
    async with node("sits.testing:no_such_factory") as running:
        await running.channel.send(StartHost("h-model", "unused"))
        assert isinstance(await anext(running.events), HostUp)
        down = await running.down()
        assert down.message.startswith("exit status 1: host cannot go on: engine ")
        assert "no_such_factory" in down.message


async def test_a_host_that_hangs_is_killed_when_it_is_told_to_stop() -> None:
    async with node() as running:
        await running.start()
        os.kill(running.only("sits-host"), signal.SIGSTOP)
        await running.channel.send(StopHost("h-model"))
        assert (await running.down()).message.startswith("killed by SIGKILL")


async def test_hosts_end_with_a_library_host_that_is_killed_and_start_again_from_a_new_one() -> (
    None
):
    async with node() as running:
        await running.start()
        library, host = running.only("sits-library"), running.only("sits-host")
        os.kill(library, signal.SIGKILL)
        down = await running.down()
        told = "the library host, of which it was, ended (killed by SIGKILL"
        assert down.message.startswith(told)
        await anyio.to_thread.run_sync(
            wait_for, lambda: not is_running(host), "the host outlived its library host"
        )
        await running.start()  # at once: by exec, or forked, if another is there already
        await running.library_runs()
        await running.start("h-two")
        assert running.only("sits-library") != library


async def test_while_the_library_host_is_away_a_host_is_started_by_exec() -> None:
    async with node() as running:
        await running.library.stop(1.0)
        await running.start()
        assert children(os.getpid()) == [running.only("sits-host")]


async def test_a_library_host_that_hangs_is_given_up_when_its_host_does_not_end() -> None:
    async with node() as running:
        await running.start()
        library = running.only("sits-library")
        os.kill(library, signal.SIGSTOP)
        await running.channel.send(StopHost("h-model"))
        assert "the library host" in (await running.down()).message
        assert not is_running(library)


async def test_all_ends_with_the_node() -> None:
    async with node() as running:
        await running.start("h-one")
        await running.start("h-two")
        family = children(os.getpid()) + children(running.only("sits-library"))
        assert len(family) == 3
    assert not [pid for pid in family if is_running(pid)]


@pytest.mark.parametrize("factory", ["sits.testing:load_fake", "no.such.package:load"])
async def test_a_library_host_comes_up_whatever_its_engine_is(factory: str) -> None:
    async with node(factory) as running:
        assert is_running(running.only("sits-library"))


async def test_no_weights_are_in_the_library_host(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(tiny_gguf())
    async with node() as running:
        await running.start(path=str(model))
        assert "m.gguf" not in read_proc(running.only("sits-library"), "maps")
