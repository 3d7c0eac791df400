"""The gateway's process, as the node starts it: signals, bad settings, its parent's death."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.integration.gateway.support import FakeControl
from tests.unit.gateway.support import KEY, FakeWorker, Say, hangs, make_route

pytestmark = pytest.mark.anyio

STREAM = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "stream": True}


def command(settings: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "sits.gateway", json.dumps(settings)]


def settings_in(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "control_socket": str(folder / "control"),
        "control_api_socket": str(folder / "api"),
        "parent_pid": os.getpid(),
        "port": 0,
        "drain_s": 0.3,
        **changes,
    }


async def log_until_listening(process: anyio.abc.Process) -> str:
    """Read the log up to the line that tells the port."""
    assert process.stderr is not None
    text = ""
    with anyio.fail_after(10):
        while "event=listening" not in text or "\n" not in text.split("event=listening")[1]:
            text += (await process.stderr.receive()).decode()
    return text


async def port_of(process: anyio.abc.Process) -> int:
    text = await log_until_listening(process)
    return int(text.split("event=listening address=127.0.0.1:")[1].split()[0])


async def rest_of(process: anyio.abc.Process) -> str:
    assert process.stderr is not None
    return b"".join([part async for part in process.stderr]).decode()


async def test_sigterm_drains_sigint_is_ignored_and_the_stream_is_told(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await hangs(say)

    control, worker = FakeControl(tmp_path / "control"), FakeWorker(tmp_path / "w0", script)
    texts: list[str] = []
    async with anyio.create_task_group() as group:
        await group.start(control.run)
        await group.start(worker.run)
        await control.push(make_route(instances=(worker.routed,)))
        async with await anyio.open_process(command(settings_in(tmp_path)), stdout=None) as process:
            port = await port_of(process)
            await control.until()

            async def call() -> None:
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                headers = {"authorization": f"Bearer {KEY.text}"}
                async with httpx2.AsyncClient(trust_env=False) as http:
                    texts.append((await http.post(url, json=STREAM, headers=headers)).text)

            async with anyio.create_task_group() as calls:
                calls.start_soon(call)
                await control.until(("chat", 0, 1))
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGTERM)
            with anyio.fail_after(3):
                log = await rest_of(process)
                assert await process.wait() == 0
        group.cancel_scope.cancel()
    assert "server_shutting_down" in texts[0]
    assert "event=draining" in log
    assert "event=request" in log
    assert "Traceback" not in log
    assert KEY.text not in log


async def test_a_second_sigterm_ends_at_once(tmp_path: Path) -> None:
    control, worker = FakeControl(tmp_path / "control"), FakeWorker(tmp_path / "w0", hangs)
    async with anyio.create_task_group() as group:
        await group.start(control.run)
        await group.start(worker.run)
        await control.push(make_route(instances=(worker.routed,)))
        settings = settings_in(tmp_path, drain_s=60.0)
        async with await anyio.open_process(command(settings), stdout=None) as process:
            port = await port_of(process)
            await control.until()
            stream = await anyio.connect_tcp("127.0.0.1", port)
            async with stream:
                body = json.dumps(STREAM)
                await stream.send(
                    f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                    f"Authorization: Bearer {KEY.text}\r\nContent-Length: {len(body)}\r\n\r\n"
                    f"{body}".encode()
                )
                await control.until(("chat", 0, 1))
                process.send_signal(signal.SIGTERM)
                assert process.stderr is not None
                with anyio.fail_after(3):
                    while b"event=draining" not in await process.stderr.receive():
                        pass
                    process.send_signal(signal.SIGTERM)
                    await rest_of(process)
                    assert await process.wait() == 0
        group.cancel_scope.cancel()


@pytest.mark.parametrize(("hard", "few"), [(1000, True), (2000, False)])
async def test_as_many_files_may_be_open_as_connections_need(
    tmp_path: Path, hard: int, few: bool
) -> None:
    limited = ["sh", "-c", f'ulimit -Sn 64; ulimit -Hn {hard}; exec "$@"', "sh"]
    settings = settings_in(tmp_path, first_table_s=0.01, max_connections=1000)
    process = await anyio.open_process([*limited, *command(settings)], stdout=None)
    async with process:
        log = await log_until_listening(process)
        try:
            limits = await anyio.Path(f"/proc/{process.pid}/limits").read_text()
        finally:
            process.terminate()
            await rest_of(process)
    assert ("event=few_files allowed=1000 wanted=1512" in log) == few
    if sys.platform == "linux":
        (line,) = (line for line in limits.splitlines() if line.startswith("Max open files"))
        assert line.split()[3:5] == [str(min(hard, 1512)), str(hard)]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [([], 2, "one argument"), (["{}"], 2, "control_socket"), (["nonsense"], 2, "cannot be read")],
)
def test_settings_that_cannot_be_read_stop_the_start_with_one_line(
    arguments: list[str], code: int, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sits.gateway", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_gateway_whose_parent_is_gone_does_not_start(tmp_path: Path) -> None:
    done = subprocess.run(command(settings_in(tmp_path, parent_pid=1)), check=False, timeout=10)
    assert done.returncode == 1
