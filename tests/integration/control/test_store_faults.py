"""Control beside a store that fails, or that has more than a table takes."""

import anyio
import pytest

from sits.store import Store, StoreFull, StoreUnavailable, UnitRecord
from sits.wire import StopHost
from tests.integration.control.fakes import Platform

pytestmark = pytest.mark.anyio


async def test_control_outlives_a_store_that_fails_for_a_while(
    running: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await running.gateway()
    await running.deploy()
    failures = []

    def fail(_store: Store, _tenant: str, _name: str) -> bool:
        failures.append("purge")
        running.record.add("purge failed")
        raise StoreFull("the store is full")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "purge_unit", fail)
        await running.api.delete("/api/v1/units/chat")
        await running.record.until(lambda: bool(failures))
        await running.record.until(lambda: bool(running.record.of(StopHost)))
    assert gateway.route() is None
    running.clock.advance(1.1)
    with anyio.fail_after(5):
        while (await running.api.get("/api/v1/units/chat")).status_code != 404:
            pass


async def test_the_loop_tries_again_when_the_store_cannot_be_read(
    running: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await running.gateway()
    await running.deploy()
    with anyio.fail_after(5):  # until nothing is under way that would meet the fault, too
        path = "/api/v1/units/chat"
        while not (await running.api.get(path)).json()["status"]["serving_revision"]:
            pass

    def fail(_store: Store, *_key: str) -> tuple[UnitRecord, ...]:
        running.record.add("read failed")
        raise StoreUnavailable("the store is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "unit", fail)
        patch.setattr(Store, "units", fail)
        answer = await running.deploy(prompt="{{ q }}")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "store_unavailable"
        assert answer.headers["retry-after"] == "1"
        await gateway.say(waiting=1)
        await running.record.until(lambda: running.record.entries.count("read failed") >= 2)
    running.clock.advance(1.1)
    await running.record.until(
        lambda: (route := gateway.route()) is not None and route.template == "{{ q }}"
    )
