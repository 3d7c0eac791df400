"""The gateway on a real port: demand, control going away, leaving clients, the drain."""

import socket
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import pytest
import uvicorn.protocols.http.httptools_impl as uvicorn_http

from sits._settings import SettingsError
from sits.gateway import run
from tests.integration.gateway.support import Platform, platform
from tests.unit.gateway.support import (
    KEY,
    FakeWorker,
    Say,
    eventually,
    hangs,
    make_route,
    make_settings,
    says,
)

pytestmark = pytest.mark.anyio

BODY = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}
STREAM = {**BODY, "stream": True}
CHAT = "/v1/chat/completions"


def caller(it: Platform) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {KEY.text}"}
    return httpx2.AsyncClient(base_url=it.url, headers=headers, timeout=10, trust_env=False)


async def test_demand_goes_up_and_a_table_with_an_instance_answers_it(tmp_path: Path) -> None:
    worker = FakeWorker(tmp_path / "w0", says("hi"))
    async with platform(tmp_path, make_route(), workers=[worker]) as it, caller(it) as http:
        answers: list[httpx2.Response] = []

        async def call() -> None:
            answers.append(await http.post(CHAT, json=BODY))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await it.control.until(("chat", 1, 0))
            await it.control.push(make_route(instances=(worker.routed,)))
        await it.control.until()
    assert answers[0].json()["choices"][0]["message"]["content"] == "hi"
    assert answers[0].headers["x-sits-tier"] == "warm"


async def test_each_table_that_is_taken_is_told_at_once_also_in_a_busy_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sits.gateway._control_link._PAUSE_S", 60.0)
    async with platform(tmp_path) as it:
        await it.control.until_taken()
        for _ in range(3):
            await it.control.push(make_route())
            await it.control.until_taken()
        assert {load.units for load in it.control.loads} == {()}
        # Whoever is told has the table already.
        assert it.control.loads[-1].table_version == 4
        # A new connection is told what was taken before it.
        await it.control.links[0].aclose()
        await it.control.until_taken()


async def test_requests_go_on_while_control_is_away_and_the_load_is_told_again(
    tmp_path: Path,
) -> None:
    worker = FakeWorker(tmp_path / "w0", says("hi"))
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker]) as it, caller(it) as http:
        told = len(it.control.loads)
        await it.control.links[0].aclose()
        assert (await http.post(CHAT, json=BODY)).status_code == 200

        async def told_again() -> bool:
            return len(it.control.loads) > told and bool(it.control.links)

        async def is_gone() -> bool:
            return (await http.post(CHAT, json=BODY)).status_code == 404

        await eventually(told_again)
        await it.control.push()
        await eventually(is_gone)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_closes_its_connection_stops_the_work(
    tmp_path: Path, stream: bool
) -> None:
    worker = FakeWorker(tmp_path / "w0", hangs)
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker]) as it, caller(it) as http:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: http.post(CHAT, json={**BODY, "stream": stream}))
            await worker.until(lambda: len(worker.requests) == 1)
            await it.control.until(("chat", 0, 1))
            group.cancel_scope.cancel()
        await worker.until(lambda: len(worker.cancelled) == 1)
        await it.control.until()


async def test_pieces_arrive_one_by_one_as_they_are_made(tmp_path: Path) -> None:
    arrivals: list[bytes] = []
    arrived = anyio.Condition()

    async def script(say: Say) -> None:
        for number, text in enumerate(("a", "b", "c"), 1):
            await say(text)
            # The next is made when this one has reached the client: nothing is kept back.
            async with arrived:
                with anyio.fail_after(5):
                    while len(arrivals) < number:
                        await arrived.wait()
        await say.finish()

    worker = FakeWorker(tmp_path / "w0", script)
    route = make_route(instances=(worker.routed,))
    async with (
        platform(tmp_path, route, workers=[worker]) as it,
        caller(it) as http,
        http.stream("POST", CHAT, json=STREAM) as response,
    ):
        async for part in response.aiter_raw():
            async with arrived:
                arrivals.append(part)
                arrived.notify_all()
    assert len(arrivals) == 4
    assert arrivals[-1].endswith(b"data: [DONE]\n\n")


async def test_a_client_that_does_not_read_holds_up_nobody_else(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        if say.max_tokens == 1:
            for _ in range(200):
                await say("x" * 50_000)
        await say("done")
        await say.finish()

    worker = FakeWorker(tmp_path / "w0", script)
    route = make_route(instances=(worker.routed,))
    async with (
        platform(tmp_path, route, workers=[worker]) as it,
        caller(it) as http,
        http.stream("POST", CHAT, json={**STREAM, "max_tokens": 1}) as slow,
    ):
        with anyio.fail_after(10):
            other = await http.post(CHAT, json=BODY)
            assert other.json()["choices"][0]["message"]["content"] == "done"
            # Its place is free when the worker is done, not when the client is.
            await it.control.until()
            body = await slow.aread()
    assert body.count(b"x" * 50_000) == 200


async def begin(http: httpx2.AsyncClient, group: anyio.abc.TaskGroup, body: Any) -> list[Any]:
    """Start a request; its status and text will be in the list."""
    result: list[Any] = []

    async def call() -> None:
        answer = await http.post(CHAT, json=body)
        result.extend([answer.status_code, answer.text])

    group.start_soon(call)
    return result


async def refuses(port: int) -> bool:
    try:
        await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
    except OSError:
        return True
    return False


async def test_a_drain_lets_streams_finish(tmp_path: Path) -> None:
    finish = anyio.Event()

    async def script(say: Say) -> None:
        await say("a")
        await finish.wait()
        await say("b")
        await say.finish()

    worker = FakeWorker(tmp_path / "w0", script)
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker], drain_s=5.0) as it, caller(it) as http:
        async with anyio.create_task_group() as group:
            result = await begin(http, group, STREAM)
            await it.control.until(("chat", 0, 1))
            it.stop.set()
            await eventually(lambda: refuses(it.port))
            finish.set()
        with anyio.fail_after(2):
            await it.ended.wait()
    assert result[0] == 200
    assert result[1].endswith("data: [DONE]\n\n")


async def test_a_drain_ends_in_time_and_everybody_is_told(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await hangs(say)

    worker = FakeWorker(tmp_path / "w0", script, capacity=2)
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker], drain_s=0.3) as it, caller(it) as http:
        async with anyio.create_task_group() as group:
            stream = await begin(http, group, STREAM)
            await it.control.until(("chat", 0, 1))
            whole = await begin(http, group, BODY)
            await it.control.until(("chat", 0, 2))
            held = await begin(http, group, BODY)
            await it.control.until(("chat", 1, 2))
            started = anyio.current_time()
            it.stop.set()
        with anyio.fail_after(2):
            await it.ended.wait()
        assert anyio.current_time() - started < 1.3
    assert held[0] == 503
    assert whole[0] == 503
    assert "server_shutting_down" in whole[1]
    assert stream[0] == 200
    assert "server_shutting_down" in stream[1]
    assert "[DONE]" not in stream[1]


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port}"):
            await run(make_settings(tmp_path, port=port))


async def test_the_servers_connections_do_not_wait_to_fill_packets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    worker = FakeWorker(tmp_path / "w0", says("x"))
    route = make_route(instances=(worker.routed,))
    protocol = uvicorn_http.HttpToolsProtocol
    made = protocol.connection_made

    def look(self: Any, transport: Any) -> None:
        sock = transport.get_extra_info("socket")
        seen.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(protocol, "connection_made", look)
    async with platform(tmp_path, route, workers=[worker]) as it, caller(it) as http:
        await http.get("/livez")
    assert seen
    assert all(seen)


async def test_a_listener_of_the_parent_is_served_and_stays_the_parents(tmp_path: Path) -> None:
    worker = FakeWorker(tmp_path / "w0", says("hi"))
    route = make_route(instances=(worker.routed,))
    with socket.create_server(("127.0.0.1", 0)) as ours:
        inherited = ours.dup().detach()
        async with (
            platform(tmp_path, route, workers=[worker], listen_fd=inherited) as it,
            caller(it) as http,
        ):
            assert it.port == ours.getsockname()[1]
            assert (await http.post(CHAT, json=BODY)).status_code == 200
        assert not await refuses(ours.getsockname()[1])
