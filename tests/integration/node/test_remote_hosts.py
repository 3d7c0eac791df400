"""The node starts remote hosts, and only they are given secrets."""

import os
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from sits.node._hosts import Hosts
from sits.node._plan import HostPlan
from sits.testing import FakeEndpointBehaviour, FakeOpenAI
from sits.wire import (
    FromHost,
    FromNode,
    HostKind,
    HostReady,
    HostUp,
    InstanceReady,
    RemoteEndpoint,
    StartHost,
    StartInstance,
    ToNode,
    connect,
    serve,
)
from tests.links import wait_for
from tests.processes import descendants

pytestmark = pytest.mark.anyio

KEY = "sk-not-for-anybody"


def environment_of(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_bytes().decode()


async def connect_soon(path: str) -> Any:
    with anyio.fail_after(10):
        while True:
            try:
                return await connect(path, FromHost)
            except OSError:
                await anyio.sleep(0.01)


async def next_of(channel: Any, wanted: type) -> Any:
    with anyio.fail_after(10):
        async for event in channel:
            if isinstance(event, wanted):
                return event
    raise AssertionError(f"no {wanted}")


async def test_a_remote_host_serves_with_the_platforms_secrets_and_no_other_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SITS_SECRET_MODELS", KEY)
    with (
        FakeOpenAI(FakeEndpointBehaviour(key=KEY)) as openai,
        tempfile.TemporaryDirectory(prefix="sits-") as name,
    ):
        plan = HostPlan(name, Path(name), Path(name) / "secrets", "sits.testing:load_fake", 2, 256)
        async with anyio.create_task_group() as tasks:
            hosts = Hosts(plan, tasks, lambda: None)
            await tasks.start(serve, f"{name}/node.sock", ToNode, hosts.serve)
            async with await connect(f"{name}/node.sock", FromNode) as node:
                for order in (
                    StartHost("r-local", "", HostKind.REMOTE, "default"),
                    StartHost("r-other", "", HostKind.REMOTE, "acme"),
                    StartHost("h-model", "unused"),
                ):
                    await node.send(order)
                    assert await next_of(node, HostUp) == HostUp(
                        order.host, f"{name}/{order.host}.sock"
                    )
            async with await connect_soon(f"{name}/r-local.sock") as control:
                assert await next_of(control, HostReady) == HostReady()
                remote = RemoteEndpoint(openai.url, "m", "models")
                await control.send(StartInstance("chat-1", "default", "chat", (remote,)))
                await next_of(control, InstanceReady)
            for other in ("r-other", "h-model"):
                async with await connect_soon(f"{name}/{other}.sock"):
                    pass
            family = descendants(os.getpid())
            with_key = [pid for pid in family["sits-remote"] if KEY in environment_of(pid)]
            assert (len(family["sits-remote"]), len(with_key)) == (2, 1)
            assert not any(KEY in environment_of(pid) for pid in family["sits-host"])
            await hosts.stop()
            wait_for(lambda: "sits-remote" not in descendants(os.getpid()), "left over")
            tasks.cancel_scope.cancel()
