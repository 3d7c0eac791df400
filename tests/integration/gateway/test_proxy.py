"""`/api/v1`: what reaches the control API, and what comes back."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from tests.integration.gateway.support import Platform, platform
from tests.unit.gateway.support import KEY, eventually

pytestmark = pytest.mark.anyio


class Api:
    """A control API that says what it was asked."""

    def __init__(self) -> None:
        self.next_part = anyio.Event()
        self.left = anyio.Event()
        self.seen: list[str] = []
        echo = Route("/api/v1/echo/{rest:path}", self.echo, methods=["GET", "POST", "DELETE"])
        self.app = Starlette(routes=[echo, Route("/api/v1/events", self.events)])

    async def echo(self, request: Request) -> JSONResponse:
        self.seen.append(request.method)
        seen = {
            "method": request.method,
            "path": request.scope["raw_path"].decode(),
            "query": request.url.query,
            "headers": dict(request.headers),
            "body": (await request.body()).decode(),
        }
        return JSONResponse(seen, 201, {"x-own": "1", "x-request-id": "theirs"})

    async def events(self, request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            try:
                yield b"one\n"
                await self.next_part.wait()
                yield b"two\n"
            finally:
                self.left.set()

        return StreamingResponse(parts(), media_type="text/plain")


@asynccontextmanager
async def behind(folder: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Api]]:
    async with all_behind(folder) as (http, api, _):
        yield http, api


@asynccontextmanager
async def all_behind(folder: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Api, Platform]]:
    api = Api()
    config = uvicorn.Config(
        api.app, uds=str(folder / "api"), log_config=None, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    async with platform(folder) as it, anyio.create_task_group() as group:
        group.start_soon(server.serve)

        async def started() -> bool:
            return server.started

        await eventually(started)
        headers = {"authorization": f"Bearer {KEY.text}"}
        async with httpx2.AsyncClient(base_url=it.url, headers=headers, trust_env=False) as http:
            yield http, api, it
        server.should_exit = server.force_exit = True


async def test_a_request_is_handed_on_with_the_tenant_and_without_the_key(tmp_path: Path) -> None:
    async with behind(tmp_path) as (http, _):
        answer = await http.post(
            "/api/v1/echo/a%2Fb?x=1&y=%20",
            content=b"name: chat",
            headers={
                "x-sits-tenant": "other",
                "x-request-id": "id-1",
                "content-type": "application/yaml",
                "x-api-key": "secret",
            },
        )
    seen = answer.json()
    assert (answer.status_code, answer.headers["x-own"]) == (201, "1")
    assert answer.headers.get_list("x-request-id") == ["id-1"]
    assert (seen["method"], seen["path"]) == ("POST", "/api/v1/echo/a%2Fb")
    assert (seen["query"], seen["body"]) == ("x=1&y=%20", "name: chat")
    headers = seen["headers"]
    assert (headers["x-sits-tenant"], headers["x-request-id"]) == ("default", "id-1")
    assert headers["content-type"] == "application/yaml"
    assert "authorization" not in headers
    assert "x-api-key" not in headers


@pytest.mark.parametrize("name", ["x-note", "content-type", "accept", "x-request-id"])
async def test_a_value_that_ends_in_a_tab_does_not_look_like_control_being_away(
    tmp_path: Path, name: str
) -> None:
    async with (
        behind(tmp_path) as (http, _),
        await anyio.connect_tcp(http.base_url.host, http.base_url.port or 0) as stream,
    ):
        await stream.send(
            f"GET /api/v1/echo/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {KEY.text}\r\n{name}: text/plain\t\r\n\r\n".encode()
        )
        answer = b"".join([part async for part in stream])
    assert answer.startswith(b"HTTP/1.1 201 ")


async def test_only_the_headers_that_control_reads_are_handed_on(tmp_path: Path) -> None:
    given = {
        "accept": "application/json",
        "content-type": "application/yaml",
        "idempotency-key": "k",
        "if-match": "3",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    other = {"x-note": "1", "cookie": "a=b", "x-forwarded-for": "10.0.0.1", "user-agent": "x"}
    async with behind(tmp_path) as (http, _):
        answer = await http.post("/api/v1/echo/x", headers={**given, **other}, content=b"x")
    headers = answer.json()["headers"]
    ours = {"host", "content-length", "x-request-id", "x-sits-tenant"}
    assert {name: headers[name] for name in given} == given
    assert set(headers) == set(given) | ours


async def test_every_method_is_handed_on(tmp_path: Path) -> None:
    async with behind(tmp_path) as (http, _):
        answer = await http.delete("/api/v1/echo/x")
    assert answer.json()["method"] == "DELETE"


async def test_an_answer_is_passed_on_part_by_part(tmp_path: Path) -> None:
    parts = []
    async with (
        behind(tmp_path) as (http, api),
        http.stream("GET", "/api/v1/events") as response,
    ):
        async for part in response.aiter_raw():
            parts.append(part)
            api.next_part.set()
    assert parts == [b"one\n", b"two\n"]


async def test_a_client_that_leaves_ends_the_request_at_control(tmp_path: Path) -> None:
    async with behind(tmp_path) as (http, api):
        async with http.stream("GET", "/api/v1/events") as response:
            async for _ in response.aiter_raw():
                break
        with anyio.fail_after(5):
            await api.left.wait()


async def test_a_change_waits_until_control_knows_of_this_gateway_again(tmp_path: Path) -> None:
    """Else a control that was started anew answers what this gateway has not been told."""
    async with all_behind(tmp_path) as (http, api, it), anyio.create_task_group() as group:
        await it.control.lose_links()
        assert (await http.get("/api/v1/echo/x")).status_code == 201
        answers = []

        async def deploy() -> None:
            answers.append((await http.post("/api/v1/echo/x", content=b"x")).status_code)

        group.start_soon(deploy)
        with anyio.fail_after(5):
            while not it.control.links:  # it is linked, and has been told nothing
                await anyio.wait_all_tasks_blocked()
        assert (api.seen, answers) == (["GET"], [])
        await it.control.push()
        with anyio.fail_after(5):
            while not answers:
                await anyio.wait_all_tasks_blocked()
        assert (api.seen, answers) == (["GET", "POST"], [201])
