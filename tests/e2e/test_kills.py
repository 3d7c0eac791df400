"""Whatever is killed, nothing is orphaned, and what is left goes on or starts again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx2
import pytest

from sits.node import running_node, shut_down
from tests.e2e.platform import (
    EXAMPLE,
    SLOW_ENGINE,
    Platform,
    chat_body,
    platform,
    wait_until_gone,
)
from tests.links import wait_for
from tests.processes import is_running


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Platform]:
    with platform(tmp_path / "home", SITS_ENGINE=SLOW_ENGINE) as running:
        running.sits("iu", "deploy", "--file", str(EXAMPLE))
        yield running


def ask(running: Platform, words: str = "hello") -> str:
    with running.http() as http:
        reply = http.post("/v1/chat/completions", json=chat_body(words))
    assert reply.status_code == 200, reply.text
    return str(reply.json()["choices"][0]["message"]["content"])


def kill(running: Platform, kind: str) -> None:
    (pid,) = running.family()[kind]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_running(pid), f"{kind} survived SIGKILL")


def test_a_killed_node_leaves_no_process_and_restarts_clean(running: Platform) -> None:
    assert ask(running) == "hello"
    family = running.wait_for_family(node=1, host=1, template=1, worker=1)
    running.process.kill()
    assert wait_until_gone(family) < 2.0
    with platform(running.home, SITS_ENGINE=SLOW_ENGINE) as again:
        # The unit is remembered and comes back by itself.
        wait_for(lambda: '"Ready"' in again.sits("iu", "list", "-o", "json"), "not ready again")
        assert ask(again) == "hello"


@pytest.mark.parametrize("kind", ["sits-worker", "sits-template", "sits-host"])
def test_a_killed_part_of_the_runtime_takes_only_its_own_and_comes_back(
    running: Platform, kind: str
) -> None:
    assert ask(running) == "hello"
    order = ["sits-host", "sits-template", "sits-worker"]
    family = running.family()
    doomed = {name: family[name] for name in order[order.index(kind) :]}
    kill(running, kind)
    assert wait_until_gone(doomed) < 2.0
    assert ask(running, "again") == "again"


@pytest.mark.parametrize("kind", ["sits-control", "sits-gateway"])
def test_a_killed_service_is_started_again_and_loses_no_instance(
    running: Platform, kind: str
) -> None:
    assert ask(running) == "hello"
    worker = running.family()["sits-worker"]
    kill(running, kind)
    assert ask(running, "meanwhile") == "meanwhile"
    family = running.wait_for_family(within_s=3.0, control=1, gateway=1)
    wait_for(lambda: '"hot"' in running.sits("iu", "list", "-o", "json"), "not adopted")
    assert running.family()["sits-worker"] == worker
    assert family["sits-node"] == [running.process.pid]


STREAMS = 8


async def read_stream(http: httpx2.AsyncClient, words: str, begun: anyio.Event) -> str:
    """Return a streamed answer's text; it has to end as a whole one does."""
    text, last = "", ""
    body = chat_body(words, stream=True)
    async with http.stream("POST", "/v1/chat/completions", json=body) as reply:
        assert reply.status_code == 200
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line.removeprefix("data: "))["choices"]
                text += "".join(choice["delta"].get("content") or "" for choice in choices)
                begun.set()
            last = line or last
    assert last == "data: [DONE]"
    return text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_streams_go_on_when_their_worker_is_killed_or_stopped(
    running: Platform, number: signal.Signals
) -> None:
    words = [f"stream {which} says " + "abcdefghij" * 12 for which in range(STREAMS)]
    found: dict[str, str] = {}
    begun = [anyio.Event() for _ in words]
    async with running.async_http() as http, anyio.create_task_group() as streams:

        async def follow(said: str, event: anyio.Event) -> None:
            found[said] = await read_stream(http, said, event)

        for said, event in zip(words, begun, strict=True):
            streams.start_soon(follow, said, event)
        await begun[0].wait()
        (worker,) = running.family()["sits-worker"][:1]
        os.kill(worker, number)
    # Nothing is missing, repeated, or another's.
    assert found == {said: said for said in words}
    assert worker not in running.family().get("sits-worker", [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_in_time_and_running_streams_are_told(
    running: Platform, number: signal.Signals
) -> None:
    node = running_node(running.home)
    assert node is not None
    with running.http() as http:
        body = chat_body("x" * 1000, stream=True)
        with http.stream("POST", "/v1/chat/completions", json=body) as reply:
            lines = reply.iter_lines()
            next(line for line in lines if '"content":"x"' in line)
            family = running.family()
            began = time.monotonic()
            os.kill(running.process.pid, number)
            rest = [line for line in lines if line]
    assert running.process.wait(10) == 0
    assert time.monotonic() - began < 5.0
    assert wait_until_gone(family) < 0.5
    error = json.loads(rest[-1].removeprefix("data: "))["error"]
    assert error["code"] == "server_shutting_down"
    assert not Path(node.run_dir).exists()


def test_short_streams_finish_during_the_drain(running: Platform) -> None:
    with running.http() as http:
        body = chat_body("y" * 40, stream=True)
        with http.stream("POST", "/v1/chat/completions", json=body) as reply:
            lines = reply.iter_lines()
            next(line for line in lines if '"content":"y"' in line)
            os.kill(running.process.pid, signal.SIGTERM)
            rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"


def test_down_ends_it_from_another_terminal(running: Platform) -> None:
    family = running.family()
    running.sits("down")
    wait_until_gone(family)
    assert running.run("down").stderr.startswith("nothing runs")
    refused = running.run("iu", "list")
    assert (refused.returncode, "sits up" in refused.stderr) == (1, True)


def test_clients_that_leave_free_their_places_at_once(running: Platform) -> None:
    """An instance runs four requests; four clients leave theirs before 1,000 tokens are made."""
    body = chat_body("z" * 1000)
    for _ in range(2):
        with running.http() as http, pytest.raises(httpx2.ReadTimeout):
            http.post("/v1/chat/completions", json=body, timeout=0.3)
        with (
            running.http() as http,
            http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as reply,
        ):
            next(line for line in reply.iter_lines() if '"content":"z"' in line)
    began = time.monotonic()
    assert ask(running, "free") == "free"
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "SITS_ENGINE": SLOW_ENGINE, "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen(
        [sys.executable, "-m", "sits.cli", "demo", "--question", "q" * 500],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: list(tmp_path.glob("sits-demo-*/key")), "the demo did not start")
    demo.send_signal(number)
    demo.wait(15)
    assert not list(tmp_path.glob("sits-demo-*"))


def test_an_interrupted_start_is_not_left_to_go_on(tmp_path: Path) -> None:
    environment = {**os.environ, "SITS_HOME": str(tmp_path / "home"), "SITS_ENGINE": SLOW_ENGINE}
    starting = subprocess.Popen(
        [sys.executable, "-m", "sits.cli", "up", "--detach", "--port", "0"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for((tmp_path / "home" / "logs" / "node.log").exists, "the platform did not start")
    starting.send_signal(signal.SIGINT)
    starting.wait(15)
    left = running_node(tmp_path / "home")
    if left is not None:
        shut_down(tmp_path / "home")
    assert left is None


def test_starting_again_what_runs_is_refused(running: Platform) -> None:
    for arguments in (["up", "--port", "0"], ["up", "--detach", "--port", "0"]):
        refused = running.run(*arguments)
        assert refused.returncode == 1
        assert f"already running at {running.url}" in refused.stderr
