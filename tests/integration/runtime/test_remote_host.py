"""A tenant's remote host: what it starts, what it refuses, and how instances end."""

import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sits.runtime.remote._host import HostPlan, RemoteHost
from sits.runtime.remote._http import Patience
from sits.testing import FakeEndpointBehaviour, FakeOpenAI
from sits.wire import (
    Cancel,
    Channel,
    ChatPrompt,
    Emitted,
    Failed,
    Finished,
    FromHost,
    FromWorker,
    Generate,
    HostReady,
    InstanceGone,
    InstanceReady,
    Message,
    OpenTemplate,
    RemoteEndpoint,
    StartInstance,
    StopInstance,
    TemplateFailed,
    TemplateReady,
    Tier,
    connect,
    encode_frame,
)

pytestmark = pytest.mark.anyio

KEY = "sk-not-for-anybody"


class Control:
    """A control that is connected to a host."""

    def __init__(self, directory: Path, channel: Channel[FromHost]) -> None:
        self.directory = directory
        self.channel = channel
        self._events = aiter(channel)

    async def send(self, *orders: Any) -> None:
        for order in orders:
            await self.channel.send(order)

    async def next(self) -> Any:
        with anyio.fail_after(5):
            return await anext(self._events)

    async def start(self, name: str, *remotes: RemoteEndpoint) -> Any:
        """Start an instance and return what is told of it."""
        await self.send(StartInstance(name, "acme", "chat", remotes))
        while isinstance(event := await self.next(), TemplateReady):
            pass
        return event


@asynccontextmanager
async def hosting(
    tenant: str = "acme", environment: Mapping[str, str] | None = None, capacity: int = 2
) -> AsyncIterator[Control]:
    # Not in `tmp_path`, whose names are too long for sockets.
    with tempfile.TemporaryDirectory(prefix="sits-") as name:
        directory = Path(name)
        (directory / "i").mkdir()
        plan = HostPlan(
            tenant=tenant,
            run_dir=str(directory / "i"),
            secrets_dir=directory / "secrets",
            environment=environment or {},
            capacity=capacity,
            patience=Patience(2.0, 5.0, 5.0),
        )
        endpoint = str(directory / "host.sock")
        async with anyio.create_task_group() as tasks:
            host = RemoteHost(plan, tasks, ssl.create_default_context())
            tasks.start_soon(host.listen, endpoint)
            while not os.path.exists(endpoint):  # noqa: ASYNC110, ASYNC240 - it announces nothing
                await anyio.sleep(0.005)
            async with await connect(endpoint, FromHost) as channel:
                control = Control(directory, channel)
                assert await control.next() == HostReady()
                yield control
            tasks.cancel_scope.cancel()


def ask(words: str, request_id: str = "r1") -> Generate:
    return Generate(request_id, ChatPrompt((Message("user", words),)))


async def answer_of(ready: Any, *requests: Generate) -> list[FromWorker]:
    """Return the ends of requests, in the order in which they came."""
    assert isinstance(ready, InstanceReady)
    ends = []
    async with await connect(ready.value.endpoint, FromWorker) as channel:
        for request in requests:
            await channel.send(request)
        with anyio.fail_after(5):
            async for event in channel:
                if not isinstance(event, Emitted):
                    ends.append(event)
                if len(ends) == len(requests):
                    break
    return ends


def write_secret(control: Control, text: str, mode: int = 0o600) -> Path:
    path = control.directory / "secrets" / "acme" / "models"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


async def test_an_instance_uses_the_tenants_secret() -> None:
    with FakeOpenAI(FakeEndpointBehaviour(key=KEY)) as endpoint:
        async with hosting() as control:
            write_secret(control, KEY)
            ready = await control.start("chat-1", RemoteEndpoint(endpoint.url, "m", "models"))
            assert ready.value.tier is Tier.COOL
            assert ready.value.capacity == 2
            (end,) = await answer_of(ready, ask("hello"))
    assert isinstance(end, Finished)


async def test_a_secret_that_is_missing_is_told_to_each_request_until_it_is_there() -> None:
    with FakeOpenAI(FakeEndpointBehaviour(key=KEY)) as endpoint:
        async with hosting() as control:
            ready = await control.start("chat-1", RemoteEndpoint(endpoint.url, "m", "models"))
            (end,) = await answer_of(ready, ask("hello"))
            assert isinstance(end, Failed)
            assert (end.code, end.retryable) == ("secret_missing", False)
            assert str(control.directory / "secrets" / "acme" / "models") in end.message
            path = write_secret(control, KEY, mode=0o644)
            (end,) = await answer_of(ready, ask("hello"))
            assert isinstance(end, Failed)
            assert end.code == "secret_missing"
            assert "chmod 600" in end.message
            assert KEY not in end.message
            assert endpoint.requests == []
            path.chmod(0o600)
            assert isinstance((await answer_of(ready, ask("hello")))[0], Finished)


async def test_what_is_left_out_for_its_secret_is_logged_when_the_instance_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hosting() as control:
        remote = RemoteEndpoint("http://127.0.0.1:1/v1", "m", "models")
        assert isinstance(await control.start("chat-1", remote), InstanceReady)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "http://127.0.0.1:1/v1" in warning.getMessage()
    assert "no secret 'models'" in warning.getMessage()
    assert {"tenant=acme", "unit=chat"} <= set(warning.getMessage().split())


async def test_the_end_of_an_instance_is_logged_under_its_unit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote = RemoteEndpoint("http://127.0.0.1:1/v1", "m")
    with caplog.at_level("INFO"):
        async with hosting() as control:
            assert isinstance(await control.start("chat-1", remote), InstanceReady)
            await control.send(StopInstance("chat-1", drain_s=0.0))
            assert isinstance(await control.next(), InstanceGone)
    (line,) = [text for text in caplog.messages if "event=instance_gone" in text]
    assert {"tenant=acme", "unit=chat"} <= set(line.split(" reason='")[0].split())


@pytest.mark.parametrize("keyless_first", [True, False])
async def test_an_endpoint_without_its_secret_keeps_no_other_from_answering(
    keyless_first: bool,
) -> None:
    with FakeOpenAI() as endpoint, FakeOpenAI() as other:
        async with hosting() as control:
            remotes = [RemoteEndpoint(endpoint.url, "m"), RemoteEndpoint(other.url, "m", "models")]
            if keyless_first:
                remotes.reverse()
            ready = await control.start("chat-1", *remotes)
            assert isinstance((await answer_of(ready, ask("hello")))[0], Finished)
            endpoint.behaviour.status = 503
            (end,) = await answer_of(ready, ask("hello"))
    assert isinstance(end, Failed)
    assert (end.code, end.retryable) == ("endpoint_failed", True)
    assert f"{endpoint.url}: it answered 503" in end.message
    assert f"{other.url}: there is no secret 'models'" in end.message
    assert other.requests == []


async def test_an_address_that_cannot_be_called_keeps_no_other_from_answering() -> None:
    bad = RemoteEndpoint("http://[::1", "m")
    with FakeOpenAI() as endpoint:
        async with hosting() as control:
            ready = await control.start("chat-1", bad, RemoteEndpoint(endpoint.url, "m"))
            assert isinstance((await answer_of(ready, ask("hello")))[0], Finished)
            alone = await control.start("chat-2", bad)
            (end,) = await answer_of(alone, ask("hello"))
    assert isinstance(end, Failed)
    assert (end.code, "http://[::1: " in end.message) == ("endpoint_failed", True)


async def test_the_environments_secrets_are_the_local_tenants_alone() -> None:
    remote = RemoteEndpoint("http://127.0.0.1:1/v1", "m", "models")
    codes = []
    for tenant in ("acme", "default"):
        async with hosting(tenant, {"SITS_SECRET_MODELS": KEY}) as control:
            await control.send(StartInstance("chat-1", tenant, "chat", (remote,)))
            assert await control.next() == TemplateReady(tenant)
            (end,) = await answer_of(await control.next(), ask("hello"))
            assert isinstance(end, Failed)
            codes.append(end.code)
    # With the key, what fails is only that nobody listens there.
    assert codes == ["secret_missing", "endpoint_failed"]


async def test_another_tenant_is_refused() -> None:
    async with hosting() as control:
        await control.send(OpenTemplate("other"))
        failed = await control.next()
        assert isinstance(failed, TemplateFailed)
        assert (failed.tenant, "'acme'" in failed.message) == ("other", True)
        remote = RemoteEndpoint("http://127.0.0.1:1/v1", "m")
        await control.send(StartInstance("x-1", "other", "chat", (remote,)))
        assert (await control.next()).code == "start_failed"


async def test_an_instance_without_any_endpoint_does_not_start() -> None:
    async with hosting() as control:
        gone = await control.start("chat-1")
        assert (gone.code, bool(gone.message)) == ("start_failed", True)


async def test_a_start_and_a_stop_in_one_breath_end_in_nothing() -> None:
    async with hosting() as control:
        remote = RemoteEndpoint("http://127.0.0.1:1/v1", "m")
        start = StartInstance("chat-1", "acme", "chat", (remote,))
        stop = StopInstance("chat-1", drain_s=0.0)
        await control.channel._stream.send(encode_frame(start) + encode_frame(stop))
        events = []
        while not isinstance(event := await control.next(), InstanceGone):
            events.append(event)
        assert event.code == "stopped"
        assert isinstance(await control.start("chat-1", remote), InstanceReady)


async def test_a_socket_that_cannot_be_had_is_told() -> None:
    async with hosting() as control:
        remote = RemoteEndpoint("http://127.0.0.1:1/v1", "m")
        gone = await control.start("x" * 200, remote)
        assert gone.code == "start_failed"
        assert "cannot be listened on" in gone.message


async def test_more_than_run_wait_and_more_than_wait_are_refused() -> None:
    with FakeOpenAI(FakeEndpointBehaviour(pause_s=0.02)) as endpoint:
        async with hosting(capacity=2) as control:
            ready = await control.start("chat-1", RemoteEndpoint(endpoint.url, "m"))
            ends = await answer_of(ready, *(ask("abcde", f"r{n}") for n in range(5)))
    refused = [end for end in ends if isinstance(end, Failed)]
    assert [(end.request_id, end.code, end.retryable) for end in refused] == [
        ("r4", "overloaded", True)
    ]
    assert len([end for end in ends if isinstance(end, Finished)]) == 4


async def test_a_cancel_closes_the_call_and_frees_the_place() -> None:
    with FakeOpenAI(FakeEndpointBehaviour(silent_after=1)) as endpoint:
        async with hosting(capacity=1) as control:
            ready = await control.start("chat-1", RemoteEndpoint(endpoint.url, "m"))
            async with await connect(ready.value.endpoint, FromWorker) as worker:
                await worker.send(ask("hello", "gone"))
                async for event in worker:
                    assert isinstance(event, Emitted)
                    break
                await worker.send(Cancel("gone"))
                with anyio.fail_after(2):
                    while endpoint.left == 0:  # noqa: ASYNC110 - another thread sees it
                        await anyio.sleep(0.01)
            endpoint.behaviour.silent_after = None
            assert isinstance((await answer_of(ready, ask("hello")))[0], Finished)


async def test_one_process_serves_many_instances_and_stops_one_alone() -> None:
    with FakeOpenAI() as endpoint:
        async with hosting() as control:
            remote = RemoteEndpoint(endpoint.url, "m")
            one, two = await control.start("one-1", remote), await control.start("two-1", remote)
            await control.send(StopInstance("one-1", drain_s=1.0))
            assert (await control.next()).instance == "one-1"
            assert not await anyio.Path(one.value.endpoint).exists()
            assert isinstance((await answer_of(two, ask("hello")))[0], Finished)
