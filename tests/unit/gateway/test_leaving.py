"""A client that leaves: the work stops at once, wherever it was, and nothing is left behind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.unit.gateway.support import Answer, Running, Say, hangs, make_route, running, serving

pytestmark = pytest.mark.anyio


async def call_and_leave(it: Running, leave: anyio.Event, *, stream: bool, route: str) -> Answer:
    if route == "chat":
        return await it.client.chat(leave=leave, stream=stream)
    body = {"inputs": {"question": "?"}, "stream": stream}
    return await it.client("POST", "/iu/chat/v1/query", body, leave=leave)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ["chat", "query"])
async def test_before_the_first_piece_the_worker_is_told(
    tmp_path: Path, stream: bool, route: str
) -> None:
    leave = anyio.Event()
    async with serving(tmp_path, hangs) as (it, worker), anyio.create_task_group() as group:

        async def caller() -> None:
            answer = await call_and_leave(it, leave, stream=stream, route=route)
            assert (answer.status, answer.body) == (0, b"")

        group.start_soon(caller)
        await worker.until(lambda: len(worker.requests) == 1)
        assert it.counts() == {"chat": (0, 1)}
        leave.set()
        await worker.until(lambda: len(worker.cancelled) == 1)
        assert worker.cancelled == [worker.requests[0].request_id]
        assert it.counts() == {}


@pytest.mark.parametrize("stream", [False, True])
async def test_amid_the_answer_the_worker_is_told(tmp_path: Path, stream: bool) -> None:
    leave, said = anyio.Event(), anyio.Event()

    async def script(say: Say) -> None:
        await say("a")
        said.set()
        await hangs(say)

    def on_send(event: Mapping[str, Any]) -> None:
        if event.get("body"):
            leave.set()

    async with serving(tmp_path, script) as (it, worker), anyio.create_task_group() as group:
        body = {"model": "chat", "messages": [{"role": "user", "content": "x"}], "stream": stream}

        async def caller() -> None:
            answer = await it.client(
                "POST", "/v1/chat/completions", body, leave=leave, on_send=on_send
            )
            assert not answer.ended

        group.start_soon(caller)
        await said.wait()
        if not stream:
            leave.set()
        await worker.until(lambda: len(worker.cancelled) == 1)
        assert it.counts() == {}


async def test_while_held_the_place_in_the_queue_is_given_up(tmp_path: Path) -> None:
    leave = anyio.Event()
    async with running(tmp_path) as it, anyio.create_task_group() as group:
        it.table(make_route())

        async def caller() -> None:
            answer = await it.client.chat(leave=leave)
            assert answer.status == 0

        group.start_soon(caller)
        await anyio.wait_all_tasks_blocked()
        assert it.counts() == {"chat": (1, 0)}
        leave.set()
        await anyio.wait_all_tasks_blocked()
        assert it.counts() == {}


async def test_while_its_body_is_read_nothing_was_begun(tmp_path: Path) -> None:
    async with serving(tmp_path, hangs) as (it, worker):
        scope = it.client._scope("POST", "/v1/chat/completions", {})
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(event: Any) -> None:
            sent.append(event)

        await it.gateway.app(scope, receive, send)
        assert (sent, worker.requests, it.counts()) == ([], [], {})


async def test_the_place_goes_to_the_next_who_waits(tmp_path: Path) -> None:
    leave = anyio.Event()
    order: list[str] = []

    async def script(say: Say) -> None:
        if say.max_tokens == 1:
            await hangs(say)
        await say("b")
        await say.finish()

    async with serving(tmp_path, script) as (it, worker):
        one = worker.routed.__class__(
            worker.routed.instance, worker.routed.endpoint, worker.routed.tier, 1
        )
        it.table(make_route(instances=(one,)))
        async with anyio.create_task_group() as group:

            async def first() -> None:
                await it.client.chat(leave=leave, max_tokens=1)
                order.append("first left")

            async def second() -> None:
                answer = await it.client.chat(max_tokens=2)
                order.append(answer.json["choices"][0]["message"]["content"])

            group.start_soon(first)
            await worker.until(lambda: len(worker.requests) == 1)
            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            assert it.counts() == {"chat": (1, 1)}
            leave.set()
    assert order == ["first left", "b"]
