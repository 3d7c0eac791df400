"""Control as it runs: deployed to over its API, among a node, a host and gateways of fakes."""

import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import anyio.abc
import httpx2
import pytest

from sits.store import (
    RevisionRecord,
    open_store,
)
from sits.wire import (
    OpenTemplate,
    StartHost,
    StartInstance,
    StopHost,
    StopInstance,
    Table,
)
from tests.integration.control.fakes import FakeGateway, Platform, platform

pytestmark = pytest.mark.anyio


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def starts_number(running: Platform, count: int) -> Callable[[], bool]:
    return lambda: len(running.record.of(StartInstance)) == count


async def test_a_deploy_answers_with_endpoint_and_makes_the_unit_warm(running: Platform) -> None:
    answer = await running.deploy()
    assert answer.status_code == 201
    body = answer.json()
    assert body["name"] == "chat"
    assert body["endpoint"] == "http://127.0.0.1:7480/v1/chat/completions"
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
    assert route.tenant == "default"


@pytest.fixture
async def group() -> AsyncIterator[anyio.abc.TaskGroup]:
    async with anyio.create_task_group() as group:
        yield group


class Asked:
    """A request of the API that may take a while."""

    def __init__(self, running: Platform, group: anyio.abc.TaskGroup, method: str) -> None:
        self.status = 0
        self._running = running
        group.start_soon(self._ask, method)

    async def _ask(self, method: str) -> None:
        answer: httpx2.Response
        if method == "POST":
            answer = await self._running.deploy(prompt="new {{ q }}")
        else:
            answer = await self._running.api.delete("/api/v1/units/chat")
        self.status = answer.status_code
        self._running.record.add("answered")


async def is_at(running: Platform, gateway: FakeGateway, template: str | None) -> None:
    """Wait until the gateway was sent this template, and control had time to answer."""

    def arrived() -> bool:
        route = gateway.route()
        return (route.template if route else None) == template

    await running.record.until(arrived)
    for _ in range(3):
        await running.api.get("/api/v1/status")


@pytest.mark.parametrize(
    ("deployed_before", "method", "template", "status"),
    [
        (False, "POST", "new {{ q }}", 201),
        (True, "POST", "new {{ q }}", 200),
        (True, "DELETE", None, 200),
    ],
)
async def test_a_change_is_answered_when_every_gateway_has_taken_it(
    running: Platform,
    group: anyio.abc.TaskGroup,
    deployed_before: bool,
    method: str,
    template: str | None,
    status: int,
) -> None:
    await running.gateway()
    gateway = await running.gateway()
    if deployed_before:
        await running.deploy(prompt="old {{ q }}")
    gateway.acknowledges = False
    asked = Asked(running, group, method)
    await is_at(running, gateway, template)
    await gateway.say(waiting=0)  # what it says while it has the former table only
    await gateway.acknowledge(1 << 60)  # nor is a table meant that was never published
    await is_at(running, gateway, template)
    assert asked.status == 0
    await gateway.acknowledge()
    await running.record.until(lambda: asked.status == status)


async def test_a_gateway_that_never_takes_a_change_delays_its_answer_by_a_second(
    running: Platform, group: anyio.abc.TaskGroup, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await running.gateway()
    gateway.acknowledges = False
    asked = Asked(running, group, "POST")
    await is_at(running, gateway, "new {{ q }}")
    running.clock.advance(0.9)
    await is_at(running, gateway, "new {{ q }}")
    assert asked.status == 0
    running.clock.advance(0.2)
    await running.record.until(lambda: asked.status == 201)
    assert "answered before every gateway had taken it" in caplog.text


async def test_a_gateway_that_leaves_is_not_waited_for(
    running: Platform, group: anyio.abc.TaskGroup
) -> None:
    gateway = await running.gateway()
    gateway.acknowledges = False
    asked = Asked(running, group, "POST")
    await is_at(running, gateway, "new {{ q }}")
    assert asked.status == 0
    await gateway.leave()
    await running.record.until(lambda: asked.status == 201)


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
        running.clock.advance(15)  # together less than a start may take
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


def put_more_than_a_table_takes(directory: Path) -> None:
    """Have the store hold what an earlier version let in: 18 MB of prompts."""
    store = open_store(directory / "home" / "sits.db")
    for number in range(18):
        spec = {"name": f"u{number}", "model": "builtin://small", "prompt": {"system": "x" * 10**6}}
        text = json.dumps(spec)
        revision = RevisionRecord(f"r{number}", text, 1.0)
        store.put_unit("default", f"u{number}", revision, now_s=1.0)
    store.close()


async def test_a_store_with_more_than_a_table_takes_still_gives_one_and_can_be_mended(
    running: Platform, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await running.deploy(prompt="{{ q }}")
    await running.end_control()
    put_more_than_a_table_takes(directory)
    await running.start_control()
    gateway = await running.gateway()
    assert len(running.record.of(Table)[-1].keys) == 1
    route = gateway.route()
    assert route is not None
    assert (route.template, route.refusal) == ("{{ q }}", None)
    refused = [unit for unit in running.record.of(Table)[-1].units if unit.refusal]
    assert {unit.name for unit in refused} == {"u10", "u11"}
    assert all(unit.system is None and not unit.instances for unit in refused)
    shown = (await running.api.get("/api/v1/units/u10")).json()["status"]
    assert (shown["phase"], shown["reason"]) == ("Failed", "PlatformFull")
    await running.deploy(prompt="{{ q }} again")  # a change that leaves them out as before
    assert caplog.text.count("too large for gateways") == 1
    for name in ("u2", "u3"):
        await running.api.delete(f"/api/v1/units/{name}")
    assert not [unit for unit in running.record.of(Table)[-1].units if unit.refusal]
    assert (await running.api.get("/api/v1/units/u10")).json()["status"]["reason"] != "PlatformFull"


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


async def test_the_api_names_no_server_and_leaves_the_date_to_the_gateway(
    running: Platform,
) -> None:
    answer = await running.api.get("/api/v1/status")
    assert not {"date", "server"} & answer.headers.keys()


async def test_the_uptime_does_not_follow_the_wall_clock(running: Platform) -> None:
    running.clock.advance(5.0)
    running.clock.unix_offset_s -= 3600.0
    shown = (await running.api.get("/api/v1/status")).json()
    assert shown["uptime_s"] == 5.0
    assert shown["started_s"] == 1_800_001_000.0


async def test_the_status_shows_a_tenant_what_is_its_own(running: Platform) -> None:
    gateway = await running.gateway()
    await running.deploy()
    await gateway.say(running=1)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    own = (await running.api.get("/api/v1/status")).json()
    assert [item["unit"] for item in own["instances"]] == ["chat"]
    assert [host["model_path"] for host in own["hosts"]] == ["/models/small.gguf"]
    other = await running.api.get("/api/v1/status", headers={"x-sits-tenant": "other"})
    shown = other.json()
    assert (shown["units"], shown["hosts"], shown["instances"]) == (0, [], [])
    assert not any(word in other.text for word in ("chat", "small", "h-"))


async def test_a_host_whose_instance_does_not_end_is_replaced(running: Platform) -> None:
    gateway = await running.gateway()
    await running.deploy()
    await gateway.say(running=1)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    (hung,) = gateway.serving()
    running.host().ignore_stops = True
    await gateway.say()
    await running.api.get("/api/v1/units/chat")
    for seconds, stops in ((61.0, 1), (15.1, 2)):
        running.clock.advance(seconds)
        await running.record.until(
            lambda stops=stops: len(running.record.of(StopInstance)) == stops  # type: ignore[misc]
        )
        await running.api.get("/api/v1/units/chat")
    running.clock.advance(5.1)
    await running.record.until(lambda: len(running.record.of(StopHost)) == 1)
    await gateway.say(waiting=1)
    await running.api.get("/api/v1/units/chat")
    running.clock.advance(1.0)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    assert gateway.serving() != [hung]
