"""Units whose model is elsewhere, through the whole platform: its own other unit, and fakes."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from sits.testing import FakeEndpointBehaviour, FakeOpenAI
from tests.e2e.platform import EXAMPLE, SLOW_ENGINE, Platform, platform
from tests.links import wait_for
from tests.processes import is_running

KEY = "sk-not-for-anybody"


def unit(name: str, *endpoints: dict[str, str]) -> str:
    return json.dumps(
        {
            "name": name,
            "model": "openai://there",
            "engine": {"kind": "openai", "endpoints": endpoints},
            "prompt": {"system": "Be brief.", "template": "{{ question }}"},
        }
    )


def deploy(running: Platform, text: str) -> None:
    path = running.home / "unit.yaml"
    path.write_text(text)
    running.sits("iu", "deploy", "--file", str(path))


def write_secret(home: Path, name: str, value: str) -> None:
    path = home / "secrets" / "default" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value)
    path.chmod(0o600)


def ask(running: Platform, name: str, words: str = "hello", **more: Any) -> httpx2.Response:
    body = {"model": name, "messages": [{"role": "user", "content": words}], **more}
    with running.http() as http:
        return http.post("/v1/chat/completions", json=body)


def said(reply: httpx2.Response) -> str:
    assert reply.status_code == 200, reply.text
    return str(reply.json()["choices"][0]["message"]["content"])


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Platform]:
    environment = {"SITS_ENGINE": SLOW_ENGINE, "SITS_SECRET_FROM_THE_ENVIRONMENT": KEY}
    with platform(tmp_path / "home", **environment) as running:
        yield running


def test_a_unit_may_be_served_by_another_unit_of_the_platform(running: Platform) -> None:
    running.sits("iu", "deploy", "--file", str(EXAMPLE))
    write_secret(running.home, "self", running.key)
    endpoint = {"url": f"{running.url}/v1", "secret": "self", "model": "chat"}
    deploy(running, unit("mirror", endpoint))
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=0) as client:
        stream = client.chat.completions.create(
            model="mirror",
            messages=[{"role": "user", "content": "Grüße 😀"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Grüße 😀"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 12
    with running.http() as http:
        reply = http.post("/iu/mirror/v1/query", json={"inputs": {"question": "why"}})
    assert reply.json()["output"] == "why"


def test_the_next_endpoint_answers_for_one_that_cannot(running: Platform) -> None:
    with (
        FakeOpenAI(FakeEndpointBehaviour(status=503)) as first,
        FakeOpenAI(FakeEndpointBehaviour(key=KEY)) as second,
    ):
        deploy(
            running,
            unit(
                "frontier",
                {"url": first.url},
                {"url": second.url, "secret": "from-the-environment", "model": "other"},
            ),
        )
        assert said(ask(running, "frontier")) == "hello"
        assert said(ask(running, "frontier", "again")) == "again"
        assert (len(first.requests), second.requests[0].body["model"]) == (1, "other")
        second.behaviour.status = 500
        refused = ask(running, "frontier")
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "endpoint_failed")
    logs = "".join(path.read_text() for path in (running.home / "logs").glob("*.log"))
    assert KEY not in refused.text + logs


def test_a_missing_secret_is_told_at_once_and_is_found_once_it_is_there(running: Platform) -> None:
    with FakeOpenAI(FakeEndpointBehaviour(key=KEY)) as endpoint:
        deploy(running, unit("frontier", {"url": endpoint.url, "secret": "later"}))
        for _ in range(3):
            refused = ask(running, "frontier")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "secret_missing")
            message = refused.json()["error"]["message"]
            assert str(running.home / "secrets" / "default" / "later") in message
            assert "SITS_SECRET_LATER" in message
        write_secret(running.home, "later", KEY)
        assert said(ask(running, "frontier")) == "hello"
    events = running.sits("iu", "events", "frontier")
    assert "start_failed" not in events
    assert "crash" not in events.lower()


def test_an_endpoint_whose_secret_is_missing_does_not_matter_to_the_others(
    running: Platform,
) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        keyless = {"url": second.url, "secret": "nowhere"}
        deploy(running, unit("after", {"url": first.url}, keyless))
        deploy(running, unit("before", keyless, {"url": first.url}))
        assert said(ask(running, "after")) == "hello"
        assert said(ask(running, "before")) == "hello"
    assert (len(first.requests), len(second.requests)) == (2, 0)


def test_a_unit_that_points_at_itself_is_told_so(running: Platform) -> None:
    write_secret(running.home, "self", running.key)
    endpoint = {"url": f"{running.url}/v1", "secret": "self", "model": "mirror"}
    deploy(running, unit("mirror", endpoint, endpoint))
    refused = ask(running, "mirror")
    assert (refused.status_code, refused.json()["error"]["code"]) == (508, "loop_detected")
    assert "'mirror'" in refused.json()["error"]["message"]


def test_a_client_that_leaves_ends_the_call_at_the_endpoint(running: Platform) -> None:
    with FakeOpenAI(FakeEndpointBehaviour(silent_after=1)) as endpoint:
        deploy(running, unit("frontier", {"url": endpoint.url}))
        with running.http() as http:
            body = {"messages": [{"role": "user", "content": "hello"}], "stream": True}
            with http.stream(
                "POST", "/v1/chat/completions", json={"model": "frontier", **body}
            ) as reply:
                next(line for line in reply.iter_lines() if '"content":"h"' in line)
        wait_for(lambda: endpoint.left == 1, "the call goes on", 2.0)
        assert endpoint.open == 0


def test_a_killed_remote_host_is_started_again(running: Platform) -> None:
    with FakeOpenAI() as endpoint:
        deploy(running, unit("frontier", {"url": endpoint.url}))
        assert said(ask(running, "frontier")) == "hello"
        (pid,) = running.family()["sits-remote"]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not is_running(pid), "it survived")
        assert said(ask(running, "frontier", "again")) == "again"
