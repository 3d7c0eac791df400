"""Requests and instances: holding, waking, losing, refusing."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from sits.gateway._errors import shutting_down
from sits.gateway._workers import WorkerLink
from sits.wire import Failed, Tier
from tests.unit.gateway.support import (
    FakeWorker,
    Running,
    Say,
    eventually,
    hangs,
    make_route,
    running,
    says,
    serving,
)

pytestmark = pytest.mark.anyio


class Callers:
    """Concurrent chat requests and their answers, in the order in which they came."""

    def __init__(self, it: Running, group: anyio.abc.TaskGroup) -> None:
        self._it, self._group = it, group
        self.answers: list[Any] = []

    async def start(self, count: int, **fields: Any) -> None:
        for _ in range(count):
            self._group.start_soon(self._call, fields)
            await anyio.wait_all_tasks_blocked()

    async def _call(self, fields: dict[str, Any]) -> None:
        self.answers.append(await self._it.client.chat(**fields))


async def test_a_unit_at_zero_holds_its_first_request_and_answers_from_the_new_instance(
    tmp_path: Path,
) -> None:
    worker = FakeWorker(tmp_path / "w0", says("hi"), tier=Tier.COOL)
    async with running(tmp_path, [worker]) as it:
        it.table(make_route())
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(1)
            assert it.counts() == {"chat": (1, 0)}
            it.table(make_route(instances=(worker.routed,)))
        later = await it.client.chat()
        assert it.counts() == {}
    assert callers.answers[0].status == 200
    assert callers.answers[0].headers["x-sits-tier"] == "cool"
    assert later.headers["x-sits-tier"] == "hot"


async def test_a_burst_at_zero_is_bounded_and_spread_over_what_comes_up(tmp_path: Path) -> None:
    release = anyio.Event()

    async def script(say: Say) -> None:
        await release.wait()
        await say("x")
        await say.finish()

    workers = [FakeWorker(tmp_path / f"w{number}", script) for number in range(2)]
    async with running(tmp_path, workers) as it:
        it.table(make_route(queue_limit=3))
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(5)
            assert it.counts() == {"chat": (3, 0)}
            refused = list(callers.answers)
            it.table(make_route(queue_limit=3, instances=tuple(w.routed for w in workers)))
            await workers[0].until(lambda: len(workers[0].requests) == 2)
            await workers[1].until(lambda: len(workers[1].requests) == 1)
            assert it.counts() == {"chat": (0, 3)}
            release.set()
    assert [answer.status for answer in refused] == [429, 429]
    assert {answer.error["code"] for answer in refused} == {"queue_full"}
    assert refused[0].headers["retry-after"] == "1"
    assert [answer.status for answer in callers.answers[2:]] == [200, 200, 200]


async def test_those_who_wait_are_served_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as (it, worker):
        it.table(make_route())
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            for number in range(1, 6):
                await callers.start(1, max_tokens=number)
            it.table(make_route(instances=(worker.routed,)))
        assert [request.max_tokens for request in worker.requests] == [1, 2, 3, 4, 5]


async def test_no_more_run_than_an_instance_has_room_for(tmp_path: Path) -> None:
    finish = anyio.Event()

    async def script(say: Say) -> None:
        await say("x")
        await finish.wait()
        await say.finish()

    async with serving(tmp_path, script) as (it, worker):
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(4)
            assert it.counts() == {"chat": (2, 2)}
            assert len(worker.requests) == 2
            finish.set()
        assert it.counts() == {}
    assert [answer.status for answer in callers.answers] == [200] * 4


async def test_a_hold_ends_at_its_deadline_with_the_units_state(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route(hold_s=0.01))
        answer = await it.client.chat(stream=True)
        assert it.counts() == {}
    assert (answer.status, answer.error["code"]) == (503, "hold_timeout")
    assert "0 instances" in answer.error["message"]
    assert answer.headers["retry-after"] == "1"


async def test_a_hold_that_ends_before_a_unit_was_ready_says_what_it_waits_for(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as it:
        it.table(make_route(hold_s=0.01, pending="its model is being taken in"))
        answer = await it.client.chat()
    assert (answer.status, answer.error["code"]) == (503, "hold_timeout")
    assert "was not ready within 0.01 s: its model is being taken in" in answer.error["message"]


async def test_a_unit_that_refuses_answers_at_once_also_those_who_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(1)
            it.table(make_route(refusal="its model crashed five times"))
        callers.answers.append(await it.client.chat())
    for answer in callers.answers:
        assert (answer.status, answer.error["code"]) == (503, "unit_unavailable")
        assert "its model crashed five times" in answer.error["message"]


async def test_a_unit_that_is_deleted_lets_go_of_those_who_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(1)
            it.table()
        assert it.gateway.activator._units == {}
    assert callers.answers[0].status == 404


async def test_an_instance_that_left_the_table_finishes_what_it_runs_and_gets_no_more(
    tmp_path: Path,
) -> None:
    finish = anyio.Event()

    async def script(say: Say) -> None:
        await say("old")
        await finish.wait()
        await say.finish()

    old = FakeWorker(tmp_path / "w0", script)
    new = FakeWorker(tmp_path / "w1", says("new"))
    async with running(tmp_path, [old, new]) as it:
        it.table(make_route(instances=(old.routed,)))
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(1)
            await old.until(lambda: len(old.requests) == 1)
            it.table(make_route(instances=(new.routed,)))
            await callers.start(1)
            await new.until(lambda: len(new.requests) == 1)
            assert it.counts()["chat"][1] >= 1
            finish.set()
        assert it.counts() == {}
    texts = {answer.json["choices"][0]["message"]["content"] for answer in callers.answers}
    assert texts == {"old", "new"}
    assert len(old.requests) == 1


@pytest.mark.parametrize("how", ["killed", "draining"])
@pytest.mark.parametrize("stream", [False, True])
async def test_before_the_first_piece_a_lost_request_runs_elsewhere(
    tmp_path: Path, how: str, stream: bool
) -> None:
    async def script(say: Say) -> None:
        if how == "draining":
            await say.fail("draining")
        else:
            await bad.hang_up()

    bad = FakeWorker(tmp_path / "w0", script)
    good = FakeWorker(tmp_path / "w1", says("fine"), capacity=1)
    async with running(tmp_path, [bad, good]) as it:
        it.table(make_route(instances=(bad.routed, good.routed)))
        answer = await it.client.chat(stream=stream)
        assert it.counts() == {}
    assert answer.status == 200
    assert b"fine" in answer.body
    assert (len(bad.requests), len(good.requests)) == (1, 1)


async def test_a_lost_request_is_held_when_there_is_nowhere_else_and_goes_first(
    tmp_path: Path,
) -> None:
    async def script(say: Say) -> None:
        await bad.hang_up()

    bad = FakeWorker(tmp_path / "w0", script, capacity=1)
    good = FakeWorker(tmp_path / "w1", says("fine"))
    async with running(tmp_path, [bad, good]) as it:
        it.table(make_route(queue_limit=1, instances=(bad.routed,)))
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            group.start_soon(callers._call, {"max_tokens": 1})
            group.start_soon(callers._call, {"max_tokens": 2})
            await bad.until(lambda: len(bad.requests) == 1)
            await anyio.wait_all_tasks_blocked()
            assert it.counts() == {"chat": (2, 0)}
            it.table(make_route(queue_limit=1, instances=(good.routed,)))
        assert [request.max_tokens for request in good.requests] == [1, 2]
    assert [answer.status for answer in callers.answers] == [200, 200]


async def test_a_request_that_kills_what_it_runs_on_is_not_handed_round_for_ever(
    tmp_path: Path,
) -> None:
    workers: list[FakeWorker] = []

    async def script(say: Say) -> None:
        for worker in workers:
            if say.request in worker.requests:
                await worker.hang_up()

    workers += [FakeWorker(tmp_path / f"w{number}", script) for number in range(5)]
    async with running(tmp_path, workers) as it:
        it.table(make_route(instances=tuple(worker.routed for worker in workers)))
        answer = await it.client.chat()
        assert it.counts() == {}
    assert (answer.status, answer.error["code"]) == (503, "instance_lost")
    assert sum(len(worker.requests) for worker in workers) == 3


async def test_an_instance_that_cannot_be_reached_is_told_without_the_systems_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    routed = FakeWorker(tmp_path / "w0", hangs).routed
    link = WorkerLink(routed, 1, lambda: None)
    answer = link.open_nowait("r")
    async with anyio.create_task_group() as group:
        group.start_soon(link.run)
        failed = await answer.get()
        group.cancel_scope.cancel()
    assert isinstance(failed, Failed)
    assert failed.code == "instance_lost"
    assert failed.message == "the instance cannot be reached; send the request again"
    assert caplog.text.count("event=instance_unreachable instance=w0") == 1


async def test_an_instance_that_is_not_there_yet_is_tried_again(tmp_path: Path) -> None:
    worker = FakeWorker(tmp_path / "w0", says("hi"))
    async with running(tmp_path) as it:
        it.table(make_route(instances=(worker.routed,)))
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(1)
            await group.start(worker.run)

            async def answered() -> bool:
                return bool(callers.answers)

            await eventually(answered)
            group.cancel_scope.cancel()
    assert callers.answers[0].status == 200


async def test_closing_the_doors_answers_those_who_wait_and_whoever_comes(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(1)
            it.gateway.close_doors()
        callers.answers.append(await it.client.chat())
        ready = await it.client("GET", "/readyz")
    assert [answer.status for answer in callers.answers] == [503, 503]
    assert {answer.error["code"] for answer in callers.answers} == {"server_shutting_down"}
    assert callers.answers[0].headers["connection"] == "close"
    assert ready.status == 503


@pytest.mark.parametrize("stream", [False, True])
async def test_what_runs_at_the_end_of_a_drain_is_told(tmp_path: Path, stream: bool) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await hangs(say)

    async with serving(tmp_path, script) as (it, worker):
        async with anyio.create_task_group() as group:
            callers = Callers(it, group)
            await callers.start(1, stream=stream)
            await worker.until(lambda: len(worker.requests) == 1)
            await anyio.wait_all_tasks_blocked()
            it.gateway.activator.fail_running("server_shutting_down", shutting_down().message)
        await worker.until(lambda: len(worker.cancelled) == 1)
        assert it.counts() == {}
    (answer,) = callers.answers
    if stream:
        assert answer.ended
        assert answer.events[-1]["error"]["code"] == "server_shutting_down"
    else:
        assert (answer.status, answer.error["code"]) == (503, "server_shutting_down")
