"""Models that are taken in, revisions that take traffic, and the way back; among fakes."""

import anyio
import pytest

from sits.models import ModelError, ModelUnavailable
from sits.wire import StartHost, StartInstance, StopHost, StopInstance, Table
from tests.integration.control.fakes import FakeGateway, Platform

pytestmark = pytest.mark.anyio


async def phase_of(running: Platform, unit: str = "chat") -> tuple[str, str]:
    status = (await running.api.get(f"/api/v1/units/{unit}")).json()["status"]
    return status["phase"], status["reason"]


async def until_phase(running: Platform, *expected: str) -> None:
    """Ask until a unit's phase (and reason) is as expected."""
    with anyio.fail_after(5):
        while (await phase_of(running))[: len(expected)] != expected:
            pass


async def reasons(running: Platform, unit: str = "chat") -> list[str]:
    events = (await running.api.get(f"/api/v1/units/{unit}/events")).json()["events"]
    return [event["reason"] for event in events]


def revision(gateway: FakeGateway) -> str | None:
    route = gateway.route()
    return route.revision if route else None


async def test_a_unit_waits_for_its_model_and_comes_up_when_that_is_there(
    running: Platform,
) -> None:
    running.models.away.add("small")
    running.models.hold = anyio.Event()
    await running.deploy()
    shown = (await running.api.get("/api/v1/units/chat")).json()["status"]
    assert (shown["phase"], shown["reason"]) == ("Deploying", "PullingModel")
    assert shown["message"] == "downloading: 50 % of 0 MB"
    assert not running.record.of(StartHost)
    running.models.hold.set()
    await running.record.until(lambda: bool(running.record.of(StartHost)))
    assert running.models.pulled == ["builtin://small"]
    assert (await reasons(running))[:3] == ["Deployed", "PullingModel", "ModelReady"]


async def test_two_units_of_one_model_take_it_in_once(running: Platform) -> None:
    running.models.away.add("small")
    running.models.hold = anyio.Event()
    await running.deploy()
    await running.deploy(name="other")
    running.models.hold.set()
    await running.record.until(lambda: bool(running.record.of(StartHost)))
    assert running.models.pulled == ["builtin://small"]
    assert "ModelReady" in await reasons(running, "other")


async def test_a_model_that_cannot_be_taken_in_is_tried_again_at_growing_intervals(
    running: Platform,
) -> None:
    running.models.away.add("small")
    running.models.failures = [ModelUnavailable("the hub is busy")] * 2
    await running.deploy()
    await until_phase(running, "Failed", "ModelUnavailable")
    assert len(running.models.pulled) == 1
    running.clock.advance(0.6)
    await running.models.pulls(2)
    await until_phase(running, "Failed", "ModelUnavailable")
    running.clock.advance(0.6)  # the second pause is a second
    await until_phase(running, "Failed", "ModelUnavailable")
    assert len(running.models.pulled) == 2
    running.clock.advance(0.6)
    await running.record.until(lambda: bool(running.record.of(StartHost)))


async def test_a_deploy_tries_a_failed_model_at_once(running: Platform) -> None:
    running.models.away.add("small")
    running.models.failures = [ModelError("wrong bytes")]
    await running.deploy()
    await until_phase(running, "Failed", "ModelUnavailable")
    await running.deploy()
    await running.record.until(lambda: bool(running.record.of(StartHost)))


async def test_the_taking_in_of_a_model_that_nothing_needs_any_more_ends(
    running: Platform,
) -> None:
    running.models.away.add("small")
    running.models.hold = anyio.Event()
    await running.deploy()
    await running.models.pulls(1)
    await running.api.delete("/api/v1/units/chat")
    with anyio.fail_after(5):
        while (await running.api.get("/api/v1/units/chat")).status_code != 404:
            pass
    running.models.hold.set()
    await running.deploy(name="other", model="builtin://other")
    assert "small" in running.models.away  # it was cancelled, and not finished


async def test_the_former_revision_serves_until_the_new_model_is_there_and_up(
    running: Platform,
) -> None:
    gateway = await running.gateway()
    former = (await running.deploy(scale={"max_instances": 2})).json()["revision"]
    await gateway.say(running=1)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    first = gateway.serving()
    running.models.away.add("other")
    running.models.hold = anyio.Event()
    answer = await running.deploy(model="builtin://other", scale={"max_instances": 2})
    newer = answer.json()["revision"]
    assert answer.json()["phase"] == "Updating"
    await running.models.pulls(1)
    assert (revision(gateway), gateway.serving()) == (former, first)
    running.models.hold.set()
    await running.record.until(lambda: revision(gateway) == newer)
    empty = [
        table
        for table in running.record.of(Table)
        for unit in table.units
        if unit.revision == newer and not unit.instances
    ]
    assert not empty  # it took traffic with an instance that was up
    stops = running.record.of(StopInstance)
    await running.record.until(lambda: bool(running.record.of(StopHost)))
    assert [stop.instance for stop in stops or running.record.of(StopInstance)] == first
    history = (await running.api.get("/api/v1/units/chat/history")).json()
    assert [route["revision"] for route in history["routes"]] == [former, newer]


async def test_a_rollback_brings_the_former_model_back_the_same_way(running: Platform) -> None:
    gateway = await running.gateway()
    former = (await running.deploy()).json()["revision"]
    await until_phase(running, "Ready")
    newer = (await running.deploy(model="builtin://other")).json()["revision"]
    await running.record.until(lambda: revision(gateway) == newer)
    answer = await running.api.post("/api/v1/units/chat/rollback")
    assert answer.json()["revision"] == former
    await running.record.until(lambda: revision(gateway) == former)
    history = (await running.api.get("/api/v1/units/chat/history")).json()
    assert [route["cause"] for route in history["routes"]] == ["deploy", "deploy", "rollback"]


async def test_what_serves_is_the_same_after_a_restart_in_the_middle_of_a_rollout(
    running: Platform,
) -> None:
    gateway = await running.gateway()
    former = (await running.deploy()).json()["revision"]
    await until_phase(running, "Ready")
    running.models.away.add("other")
    running.models.hold = anyio.Event()
    newer = (await running.deploy(model="builtin://other")).json()["revision"]
    await running.end_control()
    running.record.entries.clear()
    await running.start_control()
    gateway = await running.gateway()
    assert revision(gateway) == former
    running.models.hold.set()
    await running.record.until(lambda: revision(gateway) == newer)


async def test_a_host_that_fails_has_its_model_looked_for_again(running: Platform) -> None:
    await running.deploy()
    await until_phase(running, "Ready")
    running.models.away.add("small")  # somebody removed the file
    name = next(iter(running.node.hosts))
    await running.node.end_host(name, "no such file")
    await running.models.pulls(1)
    running.clock.advance(1.0)
    await running.record.until(lambda: len(running.record.of(StartHost)) == 2)


async def test_a_change_of_one_unit_is_all_that_gateways_are_sent(running: Platform) -> None:
    for number in range(3):
        await running.deploy(name=f"u{number}")
    gateway = await running.gateway()
    await running.deploy(name="u1", prompt="new {{ q }}")
    patch = gateway.patches[-1]
    assert [unit.name for unit in patch.units] == ["u1"]
    assert (patch.gone, patch.keys) == ((), None)
    await running.api.delete("/api/v1/units/u2")
    assert gateway.patches[-1].gone == (("default", "u2"),)
    assert not running.record.of(StartInstance)
