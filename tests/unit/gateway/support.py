"""Builders and fakes for the gateway's tests: routes, a scripted worker, an ASGI client."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from sits import trust
from sits.gateway._proxy import ControlProxy
from sits.gateway._server import Gateway
from sits.gateway._settings import Settings
from sits.wire import (
    Cancel,
    Channel,
    Embed,
    Embedded,
    Emitted,
    Failed,
    Finished,
    FinishReason,
    Generate,
    KeyRecord,
    Piece,
    RoutedInstance,
    Stage,
    Table,
    Tier,
    TokenLogprob,
    ToWorker,
    UnitRoute,
    Usage,
    serve,
)

KEY = trust.make_key()
OTHER_KEY = trust.make_key()
USAGE = Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=2)


def make_route(**changes: Any) -> UnitRoute:
    values: dict[str, Any] = {
        "name": "chat",
        "tenant": "default",
        "revision": "0a1b2c3d4e5f",
        "created_s": 1_700_000_000,
        "system": None,
        "template": "Q: {{ question }}",
        "instances": (),
        "refusal": None,
        "hold_s": 5.0,
        "queue_limit": 8,
    }
    return UnitRoute(**{**values, **changes})


def make_table(*routes: UnitRoute, version: int = 1) -> Table:
    keys = (
        KeyRecord(KEY.key_id, KEY.secret_hash, "default"),
        KeyRecord(OTHER_KEY.key_id, OTHER_KEY.secret_hash, "other"),
    )
    return Table(version, routes, keys)


def make_settings(folder: Path, **changes: Any) -> Settings:
    values: dict[str, Any] = {
        "control_socket": str(folder / "control"),
        "control_api_socket": str(folder / "api"),
        "parent_pid": 1,
        "port": 0,
    }
    return Settings(**{**values, **changes})


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what nobody announces."""
    with anyio.fail_after(5):
        while not await check():  # noqa: ASYNC110 - another process, or the kernel, does it
            await anyio.sleep(0.01)


class Say:
    """How a script answers one request."""

    def __init__(self, channel: Channel[ToWorker], request: Generate | Embed) -> None:
        self.request = request
        self.seq = request.next_seq if isinstance(request, Generate) else 0
        self._channel = channel

    @property
    def max_tokens(self) -> int | None:
        """Of a request for text."""
        return self.generate.max_tokens

    @property
    def generate(self) -> Generate:
        """The request, for text."""
        assert isinstance(self.request, Generate)
        return self.request

    async def __call__(
        self,
        text: str,
        tokens: tuple[int, ...] = (1,),
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> None:
        await self.emit(Piece(self.seq, text, tokens, Stage.DECODE, 10, logprobs))
        self.seq += 1

    async def emit(self, piece: Piece) -> None:
        await self._channel.send(Emitted(self.request.request_id, piece))

    async def finish(self, reason: FinishReason = FinishReason.STOP) -> None:
        await self._channel.send(Finished(self.request.request_id, reason, USAGE))

    async def vectors(self, *vectors: bytes) -> None:
        usage = Usage(prompt_tokens=5, completion_tokens=0)
        await self._channel.send(Embedded(self.request.request_id, vectors, usage))

    async def fail(self, code: str, message: str = "as the script says") -> None:
        await self._channel.send(Failed(self.request.request_id, code, message))


Script = Callable[[Say], Awaitable[None]]


def says(*texts: str) -> Script:
    async def script(say: Say) -> None:
        for text in texts:
            await say(text)
        await say.finish()

    return script


async def hangs(say: Say) -> None:
    await anyio.sleep_forever()


class FakeWorker:
    """A worker that answers by a script and remembers what it was asked."""

    def __init__(self, path: Path, script: Script, **changes: Any) -> None:
        self.script = script
        self.orders: list[Generate | Embed] = []
        self.cancelled: list[str] = []
        self.changed = anyio.Event()
        self.routed = RoutedInstance(
            **{
                "instance": path.name,
                "endpoint": str(path),
                "tier": Tier.WARM,
                "capacity": 2,
                **changes,
            }
        )
        self._running: dict[str, anyio.CancelScope] = {}
        self._channels: list[Channel[ToWorker]] = []

    @property
    def requests(self) -> list[Generate]:
        """Those for text."""
        return [order for order in self.orders if isinstance(order, Generate)]

    @property
    def embeds(self) -> list[Embed]:
        """Those for vectors."""
        return [order for order in self.orders if isinstance(order, Embed)]

    async def run(self, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        await serve(self.routed.endpoint, ToWorker, self._handle, task_status=task_status)

    async def until(self, seen: Callable[[], bool]) -> None:
        """Wait, without polling, until what this worker has seen is enough."""
        with anyio.fail_after(5):
            while not seen():
                self.changed = anyio.Event()
                await self.changed.wait()

    async def hang_up(self) -> None:
        """End as a killed process does: nobody can connect any more."""
        await anyio.Path(self.routed.endpoint).unlink(missing_ok=True)
        for channel in self._channels:
            await channel.aclose()

    async def _handle(self, channel: Channel[ToWorker]) -> None:
        self._channels.append(channel)
        async with anyio.create_task_group() as group:
            async for message in channel:
                if isinstance(message, Cancel):
                    self.cancelled.append(message.request_id)
                    if scope := self._running.get(message.request_id):
                        scope.cancel()
                else:
                    self.orders.append(message)
                    group.start_soon(self._answer, channel, message)
                self.changed.set()
            group.cancel_scope.cancel()

    async def _answer(self, channel: Channel[ToWorker], request: Generate | Embed) -> None:
        with anyio.CancelScope() as scope:
            self._running[request.request_id] = scope
            await self.script(Say(channel, request))


@dataclass
class Answer:
    """What an application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)
    ended: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def events(self) -> list[Any]:
        """The stream's events, decoded; `[DONE]` as it is."""
        lines = self.body.decode().split("\n\n")
        assert lines[-1] == ""
        datas = [line.removeprefix("data: ") for line in lines[:-1]]
        return [data if data == "[DONE]" else json.loads(data) for data in datas]


@dataclass
class Client:
    """Calls an application as a server would."""

    app: Callable[..., Awaitable[None]]
    key: str = KEY.text

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = b"",
        *,
        headers: Mapping[str, str] | Sequence[tuple[bytes, bytes]] | None = None,
        leave: anyio.Event | None = None,
        on_send: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> Answer:
        """Send one request; `leave` is when the client goes, `on_send` sees each event.

        A mapping of headers adds to the usual ones; a sequence is all of them.
        """
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer, bodies = Answer(), iter([content])
        gone = leave or anyio.Event()

        async def receive() -> dict[str, Any]:
            for part in bodies:
                return {"type": "http.request", "body": part, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(event: Mapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                answer.status = event["status"]
                answer.headers = {n.decode(): v.decode() for n, v in event["headers"]}
            else:
                answer.parts.append(event["body"])
                answer.ended = not event.get("more_body", False)
            if on_send is not None:
                on_send(event)

        with anyio.fail_after(10):
            await self.app(self._scope(method, path, headers or {}), receive, send)
        return answer

    def _scope(
        self, method: str, path: str, headers: Mapping[str, str] | Sequence[tuple[bytes, bytes]]
    ) -> dict[str, Any]:
        path, _, query = path.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": self._headers(headers),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7480),
        }

    def _headers(
        self, headers: Mapping[str, str] | Sequence[tuple[bytes, bytes]]
    ) -> list[tuple[bytes, bytes]]:
        if not isinstance(headers, Mapping):
            return list(headers)
        given = {"host": "localhost:7480", "authorization": f"Bearer {self.key}", **headers}
        return [(name.encode(), value.encode()) for name, value in given.items() if value]

    async def chat(
        self,
        leave: anyio.Event | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Answer:
        body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}], **fields}
        return await self("POST", "/v1/chat/completions", body, leave=leave, headers=headers)


@dataclass
class Running:
    """A gateway without a socket, with the workers behind it."""

    gateway: Gateway
    client: Client

    def table(self, *routes: UnitRoute) -> None:
        self.gateway.take(make_table(*routes))

    def counts(self) -> dict[str, tuple[int, int]]:
        """Waiting and running requests of each unit that has some."""
        loads = self.gateway.activator.loads()
        return {load.unit: (load.waiting, load.running) for load in loads}


@asynccontextmanager
async def running(
    folder: Path, workers: Iterable[FakeWorker] = (), **settings: Any
) -> AsyncIterator[Running]:
    """Run a gateway's parts and `workers`; no table is there yet."""
    made = make_settings(folder, **settings)
    async with ControlProxy(made) as proxy, anyio.create_task_group() as group:
        for worker in workers:
            await group.start(worker.run)
        gateway = Gateway(made, group, proxy)
        yield Running(gateway, Client(gateway.app))
        group.cancel_scope.cancel()


@asynccontextmanager
async def serving(
    folder: Path, script: Script, settings: Mapping[str, Any] | None = None, **route: Any
) -> AsyncIterator[tuple[Running, FakeWorker]]:
    """Run a gateway with one unit `chat` on one worker."""
    worker = FakeWorker(folder / "w0", script)
    async with running(folder, [worker], **(settings or {})) as it:
        it.table(make_route(instances=(worker.routed,), **route))
        yield it, worker
