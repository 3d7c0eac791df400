"""What the node leaves of a host that has ended."""

import os
import signal
import tempfile
from pathlib import Path

import anyio
import pytest

from sits.node._hosts import Hosts
from sits.node._plan import HostPlan
from sits.wire import (
    FromHost,
    FromNode,
    HostDown,
    HostUp,
    StartHost,
    StopHost,
    ToNode,
    connect,
    serve,
)
from tests.processes import descendants

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("ending", ["told", "killed"])
async def test_the_socket_of_a_host_that_ended_is_removed(ending: str) -> None:
    with tempfile.TemporaryDirectory(prefix="sits-") as name:
        plan = HostPlan(name, Path(name), Path(name) / "secrets", "sits.testing:load_fake", 2, 256)
        async with anyio.create_task_group() as tasks:
            hosts = Hosts(plan, tasks, lambda: None)
            await tasks.start(serve, f"{name}/node.sock", ToNode, hosts.serve)
            async with await connect(f"{name}/node.sock", FromNode) as node:
                events = aiter(node)
                with anyio.fail_after(10):
                    await node.send(StartHost("h-model", "unused"))
                    up = await anext(events)
                    assert isinstance(up, HostUp)
                    await listens(up.endpoint)
                    if ending == "told":
                        await node.send(StopHost("h-model"))
                    else:
                        (pid,) = descendants(os.getpid())["sits-host"]
                        os.kill(pid, signal.SIGKILL)
                    assert isinstance(await anext(events), HostDown)
                assert not await anyio.Path(up.endpoint).exists()
            tasks.cancel_scope.cancel()


async def listens(path: str) -> None:
    while True:
        try:
            async with await connect(path, FromHost):
                return
        except OSError:
            await anyio.sleep(0.01)
