"""Control as it runs: units cool down, and are taught and measured, among fakes."""

import anyio
import pytest

from sits.control._memory import MachineMemory
from sits.wire import (
    CloseTemplate,
    MemoryUse,
    OpenTemplate,
    StartHost,
    StopHost,
    TeachPrefix,
    UnitPrompt,
    take_prompt_in,
)
from tests.integration.control.fakes import Platform

pytestmark = pytest.mark.anyio

QUICK = {"idle": "1s", "cool_after": "5s"}


async def shown(running: Platform) -> dict[str, object]:
    status: dict[str, object] = (await running.api.get("/api/v1/units/chat")).json()["status"]
    return status


async def test_a_unit_cools_down_and_comes_back_on_a_request(running: Platform) -> None:
    gateway = await running.gateway()
    await running.deploy(scale=QUICK)
    await running.record.until(lambda: bool(running.record.of(OpenTemplate)))
    await until_phase(running, "Ready")
    running.clock.advance(5.1)
    await running.record.until(lambda: bool(running.record.of(StopHost)))
    status = await shown(running)
    assert (status["phase"], status["tier"], status["starts"]) == ("Ready", "cool", {})
    await gateway.say(waiting=1)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    assert len(running.record.of(StartHost)) == 2
    assert (await shown(running))["starts"] == {"warm": 1}


async def until_phase(running: Platform, phase: str) -> None:
    with anyio.fail_after(5):
        while (await shown(running))["phase"] != phase:  # noqa: ASYNC110 - it is polled by HTTP
            await anyio.sleep(0.01)


async def test_a_template_is_taught_its_units_prompt(running: Platform) -> None:
    await running.deploy(prompt={"system": "Be brief."})
    await running.record.until(lambda: bool(running.record.of(TeachPrefix)))
    (lesson,) = running.record.of(TeachPrefix)
    assert (lesson.tenant, lesson.unit) == ("default", "chat")
    # The words wait in a file, so that the host, which forks for other tenants, never has them.
    assert (lesson.prompt.system, lesson.prompt.template) == (None, None)
    assert take_prompt_in(lesson.prompt) == UnitPrompt("Be brief.", None)


async def test_what_hosts_measure_decides_what_goes_when_memory_is_short(
    running: Platform,
) -> None:
    gateway = await running.gateway()
    await running.deploy()
    await running.api.post("/api/v1/units", json={"name": "b", "model": "builtin://small"})
    running.api.headers["x-sits-tenant"] = "t2"
    await running.deploy()
    await running.record.until(lambda: len(running.record.of(OpenTemplate)) == 2)
    await gateway.say(running=1)
    await running.record.until(lambda: len(gateway.serving()) == 1)
    running.clock.advance(1.0)
    running.memory = MachineMemory(100, 5)
    await running.host().channels[-1].send(MemoryUse(10, {"default": 20, "t2": 20}))
    await running.record.until(lambda: bool(running.record.of(CloseTemplate)))
    assert running.record.of(CloseTemplate) == [CloseTemplate("t2")]
    assert not running.record.of(StopHost)
