"""Control as it runs: deployed to over its API, among a node, a host and gateways of fakes."""

import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from sits.wire import (
    OpenTemplate,
    StartHost,
    StartInstance,
    StopHost,
    StopInstance,
    Table,
)
from tests.integration.control.fakes import Platform, platform, short_directory

pytestmark = pytest.mark.anyio


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


@pytest.fixture
async def running(directory: Path) -> AsyncIterator[Platform]:
    async with platform(directory) as up:
        yield up


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def starts_number(running: Platform, count: int) -> Callable[[], bool]:
    return lambda: len(running.record.of(StartInstance)) == count


async def test_a_deploy_answers_with_endpoint_and_makes_the_unit_warm(running: Platform) -> None:
    answer = await running.deploy()
    assert answer.status_code == 201
    body = answer.json()
    assert body["name"] == "chat"
    assert body["endpoint"] == "http://127.0.0.1:7480/iu/chat/v1/query"
    assert len(body["revision"]) == 12
    assert body["phase"] == "Deploying"
    await running.record.until(lambda: bool(running.record.of(OpenTemplate)))
    assert [type(entry) for entry in running.record.entries] == [StartHost, OpenTemplate]


async def test_a_unit_at_zero_is_routed_with_its_prompt_and_without_instances(
    running: Platform,
) -> None:
    gateway = await running.gateway()
    await running.deploy(prompt={"system": "Be brief.", "template": "{{ q }}"})
    await running.record.until(lambda: gateway.route() is not None)
    route = gateway.route()
    assert route is not None
    assert (route.system, route.template) == ("Be brief.", "{{ q }}")
    assert (route.instances, route.refusal) == ((), None)
    assert (route.tenant, route.model) == ("default", "builtin://small")


async def test_demand_at_zero_starts_one_instance_and_idleness_stops_it(
    running: Platform,
) -> None:
    gateway = await running.gateway()
    await running.deploy()
    await gateway.say(waiting=7)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    assert len(running.record.of(StartInstance)) == 1
    await gateway.say(running=1)
    await gateway.say()
    await running.api.get("/api/v1/units/chat")  # a round trip: the load has been read
    running.clock.advance(59.9)
    running.clock.advance(0.2)
    await running.record.until(lambda: bool(running.record.of(StopInstance)))
    assert gateway.serving() == []


async def test_an_instance_leaves_the_table_before_it_is_stopped(running: Platform) -> None:
    gateway = await running.gateway()
    await running.deploy()
    await gateway.say(waiting=1)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    await gateway.say()
    await running.api.get("/api/v1/units/chat")
    running.clock.advance(61)
    await running.record.until(lambda: bool(running.record.of(StopInstance)))
    entries = running.record.entries
    stop = next(i for i, entry in enumerate(entries) if isinstance(entry, StopInstance))
    empty = max(i for i, entry in enumerate(entries) if isinstance(entry, Table))
    assert empty < stop


async def test_a_gateway_that_leaves_takes_its_demand_with_it(running: Platform) -> None:
    watcher = await running.gateway()
    gateway = await running.gateway()
    await running.deploy()
    await gateway.say(running=3)
    await running.record.until(lambda: len(watcher.serving()) == 1)
    await gateway.leave()
    await running.api.get("/api/v1/units/chat")
    running.clock.advance(0.001)  # the loop notes since when nothing is in flight
    await running.api.get("/api/v1/units/chat")
    running.clock.advance(61)
    await running.record.until(lambda: bool(running.record.of(StopInstance)))


async def test_demand_is_summed_over_gateways(running: Platform) -> None:
    one, other = await running.gateway(), await running.gateway()
    await running.deploy(scale={"max_instances": 4})
    await one.say(running=1)
    await running.record.until(lambda: len(one.serving()) == 1)
    await other.say(waiting=8)  # 9 requests, 4 to an instance: 3 instances
    await running.record.until(lambda: len(one.serving()) == 3)


async def test_max_instances_hold_while_one_is_stuck_starting(running: Platform) -> None:
    running.node.host_starts_hold = True
    gateway = await running.gateway()
    await running.deploy(scale={"max_instances": 1})
    await gateway.say(waiting=50)
    await running.record.until(lambda: bool(running.record.of(StartInstance)))
    await gateway.say(waiting=60)
    for _ in range(3):
        running.clock.advance(100)
        await running.api.get("/api/v1/units/chat")
    assert len(running.record.of(StartInstance)) == 1


async def test_deleting_a_unit_cancels_a_pending_start_and_stops_the_host(
    running: Platform,
) -> None:
    running.node.host_starts_hold = True
    gateway = await running.gateway()
    await running.deploy()
    await gateway.say(waiting=1)
    await running.record.until(lambda: bool(running.record.of(StartInstance)))
    answer = await running.api.delete("/api/v1/units/chat")
    assert answer.json() == {"name": "chat", "phase": "Deleting"}
    await running.record.until(lambda: bool(running.record.of(StopHost)))
    assert len(running.record.of(StopInstance)) == 1
    assert gateway.route() is None
    assert (await running.api.get("/api/v1/units/chat")).status_code == 404


async def test_a_host_that_dies_is_started_again_after_a_pause(running: Platform) -> None:
    gateway = await running.gateway()
    await running.deploy(scale={"min_instances": 1})
    await running.record.until(lambda: len(gateway.serving()) == 1)
    await running.node.end_host(running.record.of(StartHost)[0].host, "killed by signal 9")
    await running.record.until(lambda: gateway.serving() == [])
    assert len(running.record.of(StartHost)) == 1
    running.clock.advance(0.6)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    assert len(running.record.of(StartHost)) == 2


async def test_five_failed_starts_in_a_row_refuse_requests_with_the_reason(
    running: Platform,
) -> None:
    gateway = await running.gateway()
    await running.deploy()
    await running.record.until(lambda: bool(running.record.of(OpenTemplate)))
    running.host().fail_starts = True
    await gateway.say(waiting=1)
    for count in range(1, 6):
        await running.record.until(starts_number(running, count))
        await running.api.get("/api/v1/units/chat")
        if count < 5:
            running.clock.advance(4)
    await running.record.until(lambda: bool((route := gateway.route()) and route.refusal))
    route = gateway.route()
    assert route is not None
    assert route.refusal is not None
    assert "no memory" in route.refusal
    shown = (await running.api.get("/api/v1/units/chat")).json()["status"]
    assert (shown["phase"], shown["reason"]) == ("Failed", "CrashLoop")
    running.host().fail_starts = False
    running.clock.advance(30)
    await running.record.until(lambda: len(gateway.serving()) == 1)


async def test_a_new_prompt_keeps_the_instances(running: Platform) -> None:
    gateway = await running.gateway()
    await running.deploy(scale={"min_instances": 1})
    await running.record.until(lambda: len(gateway.serving()) == 1)
    before = gateway.serving()
    answer = await running.deploy(scale={"min_instances": 1}, prompt="{{ question }}")
    assert answer.status_code == 200
    await running.record.until(
        lambda: (route := gateway.route()) is not None and route.template is not None
    )
    assert gateway.serving() == before
    assert len(running.record.of(StartInstance)) == 1


async def test_a_new_model_serves_before_the_old_one_goes(running: Platform) -> None:
    gateway = await running.gateway()
    await running.deploy(scale={"max_instances": 2})
    await gateway.say(running=1)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    (old,) = gateway.serving()
    await running.deploy(scale={"max_instances": 2}, model="builtin://other")
    await running.record.until(lambda: len(gateway.serving()) == 1 and gateway.serving() != [old])
    await running.record.until(lambda: len(running.record.of(StopHost)) == 1)
    assert [stop.instance for stop in running.record.of(StopInstance)] == [old]
    deployed = [table.units[0] for table in running.record.of(Table) if table.units]
    first = next(i for i, route in enumerate(deployed) if route.instances)
    assert all(route.instances for route in deployed[first:])


async def test_units_and_the_key_are_there_after_a_restart(directory: Path) -> None:
    async with platform(directory) as first:
        await first.deploy()
        key = (directory / "home" / "key").read_text()
        gateway = await first.gateway()
        await first.record.until(lambda: gateway.route() is not None)
        version = first.record.of(Table)[-1].version
    async with platform(directory) as second:
        gateway = await second.gateway()
        assert gateway.route() is not None
        assert second.record.of(Table)[0].version > version
        assert (directory / "home" / "key").read_text() == key
        await second.record.until(lambda: bool(second.record.of(OpenTemplate)))


async def test_a_restart_of_control_loses_nothing_that_runs(running: Platform) -> None:
    gateway = await running.gateway()
    await running.deploy()
    await gateway.say(running=1)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    before = gateway.serving()
    await running.end_control()
    running.record.entries.clear()
    await running.start_control()
    gateway = await running.gateway()
    await gateway.say(running=1)
    await running.record.until(lambda: gateway.serving() == before)
    orders = (StartInstance, StopInstance, StopHost)
    assert not [entry for entry in running.record.entries if isinstance(entry, orders)]


async def test_the_table_carries_the_hash_of_the_local_key(running: Platform) -> None:
    await running.gateway()
    (record,) = running.record.of(Table)[0].keys
    path = Path(running.settings.home) / "key"
    assert path.read_text().startswith(f"sk-sits-{record.key_id}-")
    assert mode_of(path) == 0o600
    assert record.tenant == "default"


async def test_only_the_owner_can_reach_the_api(running: Platform) -> None:
    assert mode_of(Path(running.settings.api_socket).parent) == 0o700
    assert mode_of(Path(running.settings.api_socket)) == 0o600
    assert mode_of(Path(running.settings.control_socket)) == 0o600
