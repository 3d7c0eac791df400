"""GET /metrics: what was asked of a tenant's units, read back by Prometheus's own parser."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from sits.wire import Tier, UnitKind
from tests.unit.gateway.support import (
    OTHER_KEY,
    Answer,
    Client,
    FakeWorker,
    Running,
    Say,
    hangs,
    make_route,
    make_table,
    running,
    says,
    serving,
)

pytestmark = pytest.mark.anyio

Samples = Mapping[tuple[str, ...], float]
LABELS = ("unit", "status", "tier", "le")


def read(answer: Answer) -> Samples:
    """Return each sample by its name and its labels' values: the unit's first."""
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.body.decode())
    return {
        (sample.name, *(sample.labels[name] for name in LABELS if name in sample.labels)): (
            sample.value
        )
        for family in families
        for sample in family.samples
    }


async def scrape(it: Running) -> Samples:
    return read(await it.client("GET", "/metrics"))


async def test_requests_tokens_and_first_pieces_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path, says("a", "b", "c")) as (it, _):
        await it.client.chat()
        await it.client.chat(stream=True)
        await it.client.chat(temperature=9)
        await it.client.chat(model="none")
        found = await scrape(it)
    assert found["sits_requests_total", "chat", "2xx"] == 2
    assert found["sits_requests_total", "chat", "4xx"] == 1
    # The fake worker's usage, twice.
    assert found["sits_prompt_tokens_total", "chat"] == 14
    assert found["sits_cached_prompt_tokens_total", "chat"] == 4
    assert found["sits_completion_tokens_total", "chat"] == 6
    assert found["sits_first_piece_seconds_count", "chat", "hot"] == 2
    assert found["sits_first_piece_seconds_bucket", "chat", "hot", "+Inf"] == 2
    assert found["sits_first_piece_seconds_sum", "chat", "hot"] > 0
    assert found["sits_broken_streams_total", "chat"] == 0
    assert not [key for key in found if "none" in key or key[0] == "sits_starts_total"]


async def test_a_start_is_a_request_that_waited_for_an_instance(tmp_path: Path) -> None:
    worker = FakeWorker(tmp_path / "w0", says("x"), tier=Tier.COLD)
    async with running(tmp_path, [worker]) as it:
        it.table(make_route())
        async with anyio.create_task_group() as group:
            group.start_soon(it.client.chat)
            await anyio.wait_all_tasks_blocked()
            held = await scrape(it)
            it.table(make_route(instances=(worker.routed,)))
        await it.client.chat()
        found = await scrape(it)
    assert held["sits_waiting_requests", "chat"] == 1
    assert held["sits_running_requests", "chat"] == 0
    assert found["sits_waiting_requests", "chat"] == 0
    assert found["sits_starts_total", "chat", "cold"] == 1
    assert found["sits_first_piece_seconds_count", "chat", "cold"] == 1
    assert found["sits_first_piece_seconds_count", "chat", "hot"] == 1


async def test_what_runs_and_who_left_is_told(tmp_path: Path) -> None:
    leave = anyio.Event()
    async with serving(tmp_path, hangs) as (it, worker):
        async with anyio.create_task_group() as group:
            group.start_soon(it.client.chat, leave)
            await worker.until(lambda: len(worker.requests) == 1)
            found = await scrape(it)
            leave.set()
        after = await scrape(it)
    assert found["sits_running_requests", "chat"] == 1
    # A client that left is 499 in the log.
    assert after["sits_requests_total", "chat", "4xx"] == 1
    assert after["sits_running_requests", "chat"] == 0


async def test_a_stream_that_broke_is_no_success_alone(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("a", (1, 2))
        await say.fail("engine_error")

    async with serving(tmp_path, script) as (it, _):
        await it.client.chat(stream=True)
        found = await scrape(it)
    assert found["sits_broken_streams_total", "chat"] == 1
    assert found["sits_completion_tokens_total", "chat"] == 2


async def test_vectors_count_what_was_read(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say.vectors(b"\0\0\0\0")

    async with serving(tmp_path, script, kind=UnitKind.EMBEDDING) as (it, _):
        await it.client("POST", "/v1/embeddings", {"model": "chat", "input": "x"})
        found = await scrape(it)
    assert found["sits_prompt_tokens_total", "chat"] == 5
    assert found["sits_completion_tokens_total", "chat"] == 0


async def test_a_key_is_needed_and_shows_its_own_tenants_units_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as (it, _):
        await it.client.chat()
        other = await Client(it.gateway.app, OTHER_KEY.text)("GET", "/metrics")
        nobody = await Client(it.gateway.app, "")("GET", "/metrics")
    assert not read(other)
    assert b"chat" not in other.body
    assert (nobody.status, nobody.error["code"]) == (401, "invalid_api_key")


async def test_a_unit_that_goes_takes_its_figures_with_it(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as (it, worker):
        here = make_route(instances=(worker.routed,))
        it.table(here, make_route(name="two", instances=(worker.routed,)))
        await it.client.chat()
        await it.client.chat(model="two")
        it.table(here)
        assert {key[1] for key in await scrape(it)} == {"chat"}
        it.table()
        assert not await scrape(it)
        # It came back, and has begun anew.
        it.gateway.take(make_table(here))
        await it.client.chat()
        assert (await scrape(it))["sits_requests_total", "chat", "2xx"] == 1


async def test_a_request_that_outlives_its_unit_counts_for_nobody(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route())
        async with anyio.create_task_group() as group:
            group.start_soon(it.client.chat)
            await anyio.wait_all_tasks_blocked()
            it.table()
        assert it.gateway.metrics._figures == {}


async def test_who_asks_for_openmetrics_gets_it(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as (it, _):
        await it.client.chat()
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        answer = await it.client("GET", "/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    parsed = read_openmetrics(answer.body.decode())  # type: ignore[no-untyped-call]
    families = {family.name for family in parsed}
    assert {"sits_requests", "sits_first_piece_seconds", "sits_running_requests"} <= families
