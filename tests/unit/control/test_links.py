"""The links of control, where a peer does not do its part."""

from typing import Any, Self

import anyio
import pytest

from sits.control import SystemClock, _links
from sits.control._lifecycle import HostState
from sits.control._tracked import TrackedHost
from sits.control._world import World
from sits.wire import HostDown, HostUp

pytestmark = pytest.mark.anyio


async def test_a_peer_that_takes_no_connection_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[str] = []

    async def hang_once(path: str, _types: Any) -> Any:
        tries.append(path)
        if len(tries) == 1:
            await anyio.sleep_forever()
        return "link"

    monkeypatch.setattr(_links, "connect", hang_once)
    monkeypatch.setattr(_links, "_CONNECT_S", 0.001)
    with anyio.fail_after(5.0):
        assert str(await _links._connect("/run/h.sock", None)) == "link"
    assert tries == ["/run/h.sock"] * 2


class EndsAsItIsCancelled:
    """A host's link that is at its end in the moment in which the node says that it is down."""

    def __init__(self, links: _links.Links) -> None:
        self._links = links

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self._links._scopes["h"].cancel()
        raise StopAsyncIteration


async def test_a_link_that_ends_after_its_host_is_no_loss_of_the_next_host_of_that_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    links = _links.Links(world, SystemClock(), lambda: None, "/nowhere")

    async def connect(_path: str, _types: Any) -> Any:
        world.hosts["h"] = TrackedHost("h")  # asked for again already
        return EndsAsItIsCancelled(links)

    monkeypatch.setattr(_links, "connect", connect)
    scope = links._scopes["h"] = anyio.CancelScope()
    await links._run_host("h", "/run/h.sock", scope)
    assert world.hosts["h"].life.state is HostState.STARTING
    assert world.host_failures == 0


async def test_a_host_that_is_down_before_its_link_was_opened_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    links = _links.Links(world, SystemClock(), lambda: None, "/nowhere")

    async def connect(_path: str, _types: Any) -> Any:
        await anyio.sleep_forever()

    monkeypatch.setattr(_links, "connect", connect)
    world.hosts["h"] = TrackedHost("h")
    with anyio.fail_after(5.0):
        async with anyio.create_task_group() as hosts:
            links._on_node(HostUp("h", "/run/h.sock"), hosts)
            links._on_node(HostDown("h", "killed"), hosts)
            world.hosts["h"] = TrackedHost("h")  # asked for again
    assert links._scopes == {}
    assert world.hosts["h"].life.state is HostState.STARTING
