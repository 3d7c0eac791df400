"""X-SITS-Timeout-Ms: from the arrival on, wherever the request is."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from sits.gateway._deadline import Deadline, read_deadline
from sits.gateway._errors import ApiError
from sits.wire import UnitKind
from tests.unit.gateway.support import Say, hangs, make_route, running, says, serving

pytestmark = pytest.mark.anyio

NAME = "x-sits-timeout-ms"
SOON = {NAME: "40"}


def test_a_deadline_counts_from_the_arrival() -> None:
    deadline = read_deadline([(b"accept", b"*/*"), (NAME.encode(), b"1500")], started_s=100.0)
    assert deadline == Deadline(101.5, 1500)
    assert deadline.left_ms(100.25) == 1250
    # What has none left is told 1: a worker that is asked at all may see it end itself.
    assert deadline.left_ms(102.0) == 1
    assert deadline.left_s(102.0) == 0.0


def test_without_the_header_there_is_none() -> None:
    deadline = read_deadline([], started_s=100.0)
    assert deadline.left_ms(1e9) is None
    assert deadline.left_s(1e9) == float("inf")


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "1s", "86400001", "9" * 400, "²", "+5"])
def test_a_value_that_is_no_time_is_refused(value: str) -> None:
    with pytest.raises(ApiError, match=r"X-SITS-Timeout-Ms.*from 1 to 86400000") as caught:
        read_deadline([(NAME.encode(), value.encode("utf-8"))], 0.0)
    assert (caught.value.status, caught.value.param) == (400, NAME)
    assert read_deadline([(NAME.encode(), b"86400000")], 0.0).timeout_ms == 86_400_000


async def test_a_wrong_value_is_a_400_before_anything_is_begun(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as (it, worker):
        answer = await it.client.chat(headers={NAME: "soon"})
        twice = [(b"host", b"localhost"), *[(NAME.encode(), b"5")] * 2]
        doubled = await it.client("POST", "/v1/chat/completions", {}, headers=twice)
    assert (answer.status, answer.error["code"]) == (400, "invalid_value")
    assert (doubled.status, doubled.error["code"]) == (400, "invalid_http")
    assert worker.requests == []


async def test_the_worker_is_told_what_is_left(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as (it, worker):
        await it.client.chat()
        await it.client.chat(headers={NAME: "60000"})
        await it.client("POST", "/iu/chat/v1/query", {"inputs": {}}, headers={NAME: "60000"})
    none, *told = [request.timeout_ms for request in worker.requests]
    assert none is None
    # The test itself has 20 s.
    assert all(each is not None and 40_000 < each <= 60_000 for each in told)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_time_in_the_queue_counts(tmp_path: Path, stream: bool) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        answer = await it.client.chat(headers=SOON, stream=stream)
        assert it.counts() == {}
    assert (answer.status, answer.error["code"]) == (504, "deadline_exceeded")
    assert "40 ms" in answer.error["message"]


async def test_the_time_that_the_body_takes_counts(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        scope = it.client._scope("POST", "/v1/chat/completions", SOON)
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            await anyio.sleep_forever()
            raise AssertionError

        async def send(event: Any) -> None:
            sent.append(event)

        with anyio.fail_after(5):
            await it.gateway.app(scope, receive, send)
    assert sent[0]["status"] == 504
    assert b"deadline_exceeded" in sent[1]["body"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_instance_that_says_nothing_does_not_hold_it_up(
    tmp_path: Path, stream: bool
) -> None:
    async with serving(tmp_path, hangs) as (it, worker):
        answer = await it.client.chat(headers=SOON, stream=stream)
        await worker.until(lambda: len(worker.cancelled) == 1)
        assert it.counts() == {}
    assert (answer.status, answer.error["code"]) == (504, "deadline_exceeded")


@pytest.mark.parametrize("stream", [False, True])
async def test_amid_the_answer_it_ends_it(tmp_path: Path, stream: bool) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await hangs(say)

    async with serving(tmp_path, script) as (it, worker):
        answer = await it.client.chat(headers={NAME: "200"}, stream=stream)
        await worker.until(lambda: len(worker.cancelled) == 1)
    error = answer.events[-1]["error"] if stream else answer.error
    assert (answer.status, error["code"]) == (200 if stream else 504, "deadline_exceeded")


@pytest.mark.parametrize("pieces", [0, 1])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_worker_ended_is_told_likewise(
    tmp_path: Path, pieces: int, stream: bool
) -> None:
    async def script(say: Say) -> None:
        for _ in range(pieces):
            await say("a")
        await say.fail("deadline_exceeded", "the time was over")

    async with serving(tmp_path, script) as (it, worker):
        answer = await it.client.chat(headers={NAME: "60000"}, stream=stream)
        assert len(worker.requests) == 1
    amid = stream and pieces
    error = answer.events[-1]["error"] if amid else answer.error
    assert (answer.status, error["code"]) == (200 if amid else 504, "deadline_exceeded")
    assert error["message"] == "the time was over"


async def test_vectors_have_a_deadline_too(tmp_path: Path) -> None:
    async with serving(tmp_path, hangs, kind=UnitKind.EMBEDDING) as (it, worker):
        body = {"model": "chat", "input": "x"}
        answer = await it.client("POST", "/v1/embeddings", body, headers=SOON)
        await worker.until(lambda: len(worker.cancelled) == 1)
    assert (answer.status, answer.error["code"]) == (504, "deadline_exceeded")
