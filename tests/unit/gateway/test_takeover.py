"""An instance that is lost amid an answer: another goes on behind the accepted tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from sits.wire import Tier
from tests.unit.gateway.support import (
    Answer,
    FakeWorker,
    Running,
    Say,
    Script,
    make_route,
    running,
    says,
)

pytestmark = pytest.mark.anyio

WORDS = ("Es ", "war ", "ein", "mal ", "ein ", "König", ".")


def text_of(answer: Answer, stream: bool) -> str:
    if not stream:
        return str(answer.json["choices"][0]["message"]["content"])
    chunks = [event for event in answer.events if event != "[DONE]"]
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)


def error_of(answer: Answer, stream: bool) -> Any:
    return answer.events[-1]["error"] if stream else answer.error


class Fleet:
    """Workers that know WORDS, one token a word, and die as the test says."""

    def __init__(self, folder: Path, lives: Sequence[int | None]) -> None:
        self.folder = folder
        self.workers = [
            FakeWorker(folder / f"w{number}", self._script(number, life), capacity=1)
            for number, life in enumerate(lives)
        ]

    def _script(self, number: int, life: int | None) -> Script:
        """Say what is left of the words; die after `life` of them; None: never."""

        async def script(say: Say) -> None:
            begin = len(say.generate.accepted)
            assert say.generate.accepted == tuple(range(begin))
            for token in range(begin, len(WORDS)):
                if life is not None and token - begin == life:
                    await self.workers[number].hang_up()
                    return
                await say(WORDS[token], (token,))
            if life == len(WORDS):
                await self.workers[number].hang_up()
            else:
                await say.finish()

        return script

    def route(self, **changes: Any) -> Any:
        return make_route(instances=tuple(each.routed for each in self.workers), **changes)

    @property
    def asked(self) -> list[tuple[int, int]]:
        """How many tokens and pieces each request began behind."""
        orders = [order for worker in self.workers for order in worker.requests]
        return sorted((len(order.accepted), order.next_seq) for order in orders)


async def ask(it: Running, fleet: Fleet, **fields: Any) -> Answer:
    it.table(fleet.route())
    answer = await it.client.chat(**fields)
    assert it.counts() == {}
    return answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("lives", "asked"),
    [
        ([2, None], [(0, 0), (2, 2)]),
        ([2, 3, None], [(0, 0), (2, 2), (5, 5)]),
        ([7, None], [(0, 0), (7, 7)]),
        ([1, 0, 0, None], [(0, 0), (1, 1), (1, 1), (1, 1)]),
        ([1, 1, 1, 1, None], [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]),
    ],
)
async def test_the_client_reads_each_word_once_however_many_instances_made_them(
    tmp_path: Path, lives: list[int | None], asked: list[tuple[int, int]], stream: bool
) -> None:
    fleet = Fleet(tmp_path, lives)
    async with running(tmp_path, fleet.workers) as it:
        answer = await ask(it, fleet, stream=stream, max_tokens=50)
    assert answer.status == 200
    assert text_of(answer, stream) == "".join(WORDS)
    assert fleet.asked == asked
    # The limit stays that of the whole answer; the instance counts what was accepted.
    assert {order.max_tokens for worker in fleet.workers for order in worker.requests} == {50}
    if stream:
        deltas = [e["choices"][0]["delta"] for e in answer.events if e != "[DONE]"]
        assert [delta.get("role") for delta in deltas] == ["assistant"] + [None] * len(WORDS)
        assert answer.events[-1] == "[DONE]"
    else:
        assert answer.json["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_pieces_without_text_count_as_pieces(tmp_path: Path, stream: bool) -> None:
    async def dies(say: Say) -> None:
        await say("", (10,))
        await say("ü", (11, 12))
        await say("", ())
        await first.hang_up()

    first = FakeWorker(tmp_path / "w0", dies)
    second = FakeWorker(tmp_path / "w1", says("!"), capacity=1)
    async with running(tmp_path, [first, second]) as it:
        it.table(make_route(instances=(first.routed, second.routed)))
        answer = await it.client.chat(stream=stream)
    assert text_of(answer, stream) == "ü!"
    (order,) = second.requests
    assert (order.accepted, order.next_seq) == ((10, 11, 12), 3)


@pytest.mark.parametrize("stream", [False, True])
async def test_tries_without_progress_are_bounded(tmp_path: Path, stream: bool) -> None:
    fleet = Fleet(tmp_path, [2, 0, 0, 0, None])
    async with running(tmp_path, fleet.workers) as it:
        answer = await ask(it, fleet, stream=stream)
    assert error_of(answer, stream)["code"] == "instance_lost"
    assert "send the request again" in error_of(answer, stream)["message"]
    assert fleet.asked == [(0, 0), (2, 2), (2, 2), (2, 2)]


async def test_a_request_that_kills_everything_piece_by_piece_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sits.gateway._making._MAX_LOSSES", 2)
    fleet = Fleet(tmp_path, [1, 1, 1, 1, None])
    async with running(tmp_path, fleet.workers) as it:
        answer = await ask(it, fleet)
    assert (answer.status, answer.error["code"]) == (503, "instance_lost")
    assert len(fleet.asked) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_takeover_waits_for_an_instance_with_a_hold_of_its_own(
    tmp_path: Path, stream: bool
) -> None:
    fleet = Fleet(tmp_path, [2, None])
    first, second = fleet.workers
    async with running(tmp_path, fleet.workers) as it:
        it.table(make_route(instances=(first.routed,)))
        answers: list[Answer] = []

        async def call() -> None:
            answers.append(await it.client.chat(stream=stream))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await first.until(lambda: len(first.requests) == 1)
            while it.counts() != {"chat": (1, 0)}:  # noqa: ASYNC110 - nobody announces it
                await anyio.sleep(0.005)
            it.table(make_route(instances=(second.routed,)))
    assert text_of(answers[0], stream) == "".join(WORDS)
    # The headers tell of the first instance, from which the client has begun to read.
    assert answers[0].headers["x-sits-tier"] == Tier.HOT
    assert fleet.asked == [(0, 0), (2, 2)]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_takeover_that_finds_no_instance_ends_at_its_hold(
    tmp_path: Path, stream: bool
) -> None:
    fleet = Fleet(tmp_path, [2])
    async with running(tmp_path, fleet.workers) as it:
        it.table(fleet.route(hold_s=0.1))
        answer = await it.client.chat(stream=stream)
        assert it.counts() == {}
    assert error_of(answer, stream)["code"] == "hold_timeout"


@pytest.mark.parametrize("how", ["no tokens", "endpoint_lost", "other revision"])
@pytest.mark.parametrize("stream", [False, True])
async def test_where_no_instance_can_go_on_a_stream_ends_and_a_document_begins_anew(
    tmp_path: Path, how: str, stream: bool
) -> None:
    async def dies(say: Say) -> None:
        await say("half", () if how != "other revision" else (1,))
        if how == "endpoint_lost":
            it.table(make_route(instances=(second.routed,)))
            await say.fail("endpoint_lost")
            return
        if how == "other revision":
            it.table(make_route(instances=(second.routed,), revision="f" * 12))
        await first.hang_up()

    first = FakeWorker(tmp_path / "w0", dies)
    second = FakeWorker(tmp_path / "w1", says("whole"), capacity=1)
    async with running(tmp_path, [first, second]) as it:
        it.table(make_route(instances=(first.routed, second.routed)))
        answer = await it.client.chat(stream=stream)
        assert it.counts() == {}
    if stream:
        expected = "endpoint_lost" if how == "endpoint_lost" else "instance_lost"
        assert answer.events[-1]["error"]["code"] == expected
        assert [order.next_seq for order in second.requests] == []
    else:
        assert text_of(answer, stream) == "whole"
        (order,) = second.requests
        assert (order.accepted, order.next_seq) == ((), 0)


async def test_an_endpoint_that_breaks_off_each_time_is_asked_three_times(tmp_path: Path) -> None:
    async def breaks_off(say: Say) -> None:
        await say("half", ())
        await say.fail("endpoint_lost")

    worker = FakeWorker(tmp_path / "w0", breaks_off)
    async with running(tmp_path, [worker]) as it:
        it.table(make_route(instances=(worker.routed,)))
        answer = await it.client.chat()
    assert (answer.status, answer.error["code"]) == (502, "endpoint_lost")
    assert len(worker.requests) == 3


async def test_an_endpoint_elsewhere_cannot_go_on_and_is_not_asked_twice(tmp_path: Path) -> None:
    async def refuses(say: Say) -> None:
        await say.fail("endpoint_lost")

    async def dies(say: Say) -> None:
        await say("a", (1,))
        await first.hang_up()

    first = FakeWorker(tmp_path / "w0", dies)
    second = FakeWorker(tmp_path / "w1", refuses, capacity=1)
    async with running(tmp_path, [first, second]) as it:
        it.table(make_route(instances=(first.routed, second.routed)))
        answer = await it.client.chat(stream=True)
    assert answer.events[-1]["error"]["code"] == "endpoint_lost"
    assert len(second.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_next_instance_that_skips_or_repeats_a_piece_is_noticed(
    tmp_path: Path, stream: bool
) -> None:
    def wrong(seq: int) -> Script:
        async def script(say: Say) -> None:
            say.seq = seq
            await say("x", (9,))
            await say.finish()

        return script

    async def dies(say: Say) -> None:
        await say("a", (1,))
        await first.hang_up()

    for seq in (0, 2):
        first = FakeWorker(tmp_path / f"w{seq}-0", dies)
        second = FakeWorker(tmp_path / f"w{seq}-1", wrong(seq), capacity=1)
        async with running(tmp_path, [first, second]) as it:
            it.table(make_route(instances=(first.routed, second.routed)))
            answer = await it.client.chat(stream=stream)
        assert error_of(answer, stream)["code"] == "engine_error"
        assert f"piece {seq} where piece 1" in error_of(answer, stream)["message"]


async def test_an_instance_that_takes_nothing_any_more_ends_no_request_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a stopped process: connected, silent, its socket's buffer full."""
    monkeypatch.setattr("sits.gateway._workers._SEND_S", 0.1)
    fleet = Fleet(tmp_path, [None])
    silent = await anyio.create_unix_listener(tmp_path / "stopped")
    routed = fleet.workers[0].routed
    stopped = type(routed)("stopped", str(tmp_path / "stopped"), Tier.WARM, 64)
    async with silent, running(tmp_path, fleet.workers) as it:
        it.table(make_route(instances=(stopped,), hold_s=5.0))
        big = [{"role": "user", "content": "x" * 600_000}]
        answers: list[Answer] = []

        async def call() -> None:
            answers.append(await it.client.chat(messages=big, stream=True))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(call)
            while it.counts() != {"chat": (0, 3)}:  # noqa: ASYNC110 - nobody announces it
                await anyio.sleep(0.005)
            it.table(fleet.route(hold_s=5.0))
    assert {text_of(answer, stream=True) for answer in answers} == {"".join(WORDS)}
