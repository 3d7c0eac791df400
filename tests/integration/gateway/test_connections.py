"""Connections that send nothing, too little, too much or no HTTP: each ends, and says why."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from tests.integration.gateway.support import Platform, platform
from tests.unit.gateway.support import KEY, FakeWorker, Say, eventually, hangs, make_route, says

pytestmark = pytest.mark.anyio

HEADER_S = 0.3
HEAD = f"Host: localhost\r\nAuthorization: Bearer {KEY.text}\r\n"
MODELS = f"GET /v1/models HTTP/1.1\r\n{HEAD}\r\n".encode()


def chat(**fields: Any) -> bytes:
    body = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "Hi"}], **fields})
    head = f"POST /v1/chat/completions HTTP/1.1\r\n{HEAD}Content-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


class Wire:
    """A client's end of a connection, byte by byte."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._pending = b""

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def close(self) -> None:
        await self._stream.aclose()

    async def rest(self, within_s: float = 5.0) -> bytes:
        """Return all that comes until the other side closes, which has to be soon."""
        data, self._pending = self._pending, b""
        with anyio.fail_after(within_s):
            try:
                while True:
                    data += await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return data

    async def until(self, mark: bytes) -> bytes:
        """Return what comes, up to the end of a mark."""
        with anyio.fail_after(5):
            while mark not in self._pending:
                self._pending += await self._stream.receive()
        head, _, self._pending = self._pending.partition(mark)
        return head + mark


@asynccontextmanager
async def opened(it: Platform) -> AsyncIterator[Wire]:
    async with await anyio.connect_tcp("127.0.0.1", it.port) as stream:
        yield Wire(stream)


def parsed(answer: bytes) -> tuple[int, dict[str, str], Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, json.loads(body)["error"]


def code_of(answer: bytes) -> tuple[int, str]:
    status, headers, error = parsed(answer)
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert set(error) == {"message", "type", "param", "code"}
    return status, error["code"]


async def nothing(wire: Wire) -> None:
    pass


async def a_first_request(wire: Wire) -> None:
    await wire.send(MODELS)
    await wire.until(b'"object":"list"}')


async def an_answered_request_without_its_body(wire: Wire) -> None:
    await wire.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
    await wire.until(b'"code":"method_not_allowed"}}')


Before = Callable[[Wire], Awaitable[None]]


@pytest.mark.parametrize("before", [nothing, a_first_request])
@pytest.mark.parametrize("part", [b"G", b"GET /v1/models HTTP/1.1\r\nHost: local"])
async def test_half_a_head_is_a_408_also_of_a_later_request(
    tmp_path: Path, before: Before, part: bytes
) -> None:
    async with platform(tmp_path, header_s=HEADER_S) as it, opened(it) as wire:
        await before(wire)
        started = anyio.current_time()
        await wire.send(part)
        assert code_of(await wire.rest()) == (408, "header_timeout")
        assert 0.9 * HEADER_S <= anyio.current_time() - started < HEADER_S + 2


async def test_a_head_that_comes_in_drops_has_no_more_time(tmp_path: Path) -> None:
    async with (
        platform(tmp_path, header_s=HEADER_S) as it,
        opened(it) as wire,
        anyio.create_task_group() as group,
    ):

        async def drip() -> None:
            await wire.send(b"GET /livez HTTP/1.1\r\nX: ")
            while True:
                await anyio.sleep(HEADER_S / 10)
                await wire.send(b"x")

        group.start_soon(drip)
        answer = await wire.until(b"}}")
        group.cancel_scope.cancel()
    assert code_of(answer) == (408, "header_timeout")


@pytest.mark.parametrize(
    ("before", "sent"),
    [
        (nothing, b""),
        (nothing, b"\r\n"),
        (a_first_request, b"\r\n\r\n"),
        (an_answered_request_without_its_body, b""),
        (an_answered_request_without_its_body, b"d"),
    ],
)
async def test_a_connection_that_asks_nothing_is_closed_without_a_word(
    tmp_path: Path, before: Before, sent: bytes
) -> None:
    async with platform(tmp_path, header_s=HEADER_S) as it, opened(it) as wire:
        await before(wire)
        if sent:
            await wire.send(sent)
        assert await wire.rest() == b""


async def test_an_idle_connection_stays_open_longer_than_a_head_may_take(tmp_path: Path) -> None:
    async with platform(tmp_path, header_s=0.1, keep_alive_s=1) as it, opened(it) as wire:
        await a_first_request(wire)
        await anyio.sleep(0.3)
        await a_first_request(wire)
        assert await wire.rest() == b""


async def test_an_answer_that_takes_longer_than_a_head_may_is_not_cut_off(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await anyio.sleep(0.4)
        await say("b")
        await say.finish()

    worker = FakeWorker(tmp_path / "w0", script)
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker], header_s=0.1) as it, opened(it) as wire:
        # With half of the next request behind it, whose time begins when this one is answered.
        await wire.send(chat(stream=True) + b"GET /v1/mod")
        assert b'"content":"b"' in await wire.until(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert code_of(await wire.rest()) == (408, "header_timeout")


async def test_a_head_of_unbounded_size_is_a_431(tmp_path: Path) -> None:
    async with (
        platform(tmp_path) as it,
        opened(it) as wire,
        anyio.create_task_group() as group,
    ):

        async def flood() -> None:
            await wire.send(b"GET /livez HTTP/1.1\r\n")
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    await wire.send(b"X-Much: " + b"x" * 8000 + b"\r\n")

        group.start_soon(flood)
        answer = await wire.rest()
    # Once we close, what still comes resets the connection, which may take the answer with it.
    assert answer == b"" or code_of(answer) == (431, "header_too_large")


async def test_a_connection_too_many_is_a_503_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with platform(tmp_path, max_connections=2) as it, AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(opened(it)) for _ in range(2)]
        await a_first_request(first)
        await a_first_request(second)
        for _ in range(3):
            async with opened(it) as third:
                answer = await third.rest()
            assert code_of(answer) == (503, "too_many_connections")
            assert parsed(answer)[1]["retry-after"] == "1"
        await a_first_request(first)
        await second.close()
        await eventually(lambda: takes_another(it))
    refusals = [r for r in caplog.records if "event=connections_refused" in r.getMessage()]
    assert len(refusals) == 1


async def takes_another(it: Platform) -> bool:
    async with opened(it) as wire:
        await wire.send(MODELS)
        return b" 200 " in await wire.until(b"\r\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Header: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        chat().replace(b"Content-Length: ", b"Transfer-Encoding: chunked\r\nX: "),
    ],
)
async def test_what_is_no_http_is_told_in_the_form_of_every_error(
    tmp_path: Path, sent: bytes
) -> None:
    async with platform(tmp_path) as it, opened(it) as wire:
        await wire.send(sent)
        assert code_of(await wire.rest()) == (400, "invalid_http")


async def test_nothing_is_written_into_an_answer_that_has_begun(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await hangs(say)

    worker = FakeWorker(tmp_path / "w0", script)
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker]) as it, opened(it) as wire:
        await wire.send(chat(stream=True))
        await wire.until(b'"content":"a"')
        await wire.send(b"nonsense\r\n\r\n")
        assert b"HTTP/1.1" not in await wire.rest()
        await worker.until(lambda: len(worker.cancelled) == 1)


async def test_a_client_that_leaves_with_requests_in_the_pipe_stops_the_first(
    tmp_path: Path,
) -> None:
    worker = FakeWorker(tmp_path / "w0", hangs)
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker]) as it, opened(it) as wire:
        await wire.send(chat(stream=True) + MODELS)
        await worker.until(lambda: len(worker.requests) == 1)
        await wire.close()
        await worker.until(lambda: len(worker.cancelled) == 1)


async def test_an_upgrade_is_ignored_and_no_advice_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    upgrade = MODELS[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with platform(tmp_path) as it, opened(it) as wire:
        await wire.send(upgrade)
        assert b" 200 OK" in await wire.until(b'"object":"list"}')
    assert "uvicorn" not in caplog.text
    assert "pgrade" not in caplog.text


async def test_white_space_behind_a_headers_value_is_no_part_of_it(tmp_path: Path) -> None:
    worker = FakeWorker(tmp_path / "w0", says("hi"))
    async with platform(tmp_path, workers=[worker]) as it, opened(it) as wire:
        head = f"Host: localhost \t\r\nX-Api-Key: {KEY.text}\t\r\nX-Request-Id: mine \r\n"
        await wire.send(f"GET /v1/models HTTP/1.1\r\n{head}\r\n".encode())
        answer = await wire.until(b'"object":"list"}')
    assert b" 200 OK" in answer
    assert b"x-request-id: mine\r\n" in answer
