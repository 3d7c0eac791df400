"""The routing table: whole at first, then what changes it."""

from pathlib import Path

import pytest

from sits.gateway._errors import ApiError
from sits.gateway._table import RoutingTable
from sits.wire import TablePatch, WireError
from tests.unit.gateway.support import KEY, make_route, make_table, running, says, serving

pytestmark = pytest.mark.anyio


def names(table: RoutingTable) -> set[str]:
    return {route.name for route in table.units("default")}


def make_two() -> RoutingTable:
    table = RoutingTable()
    table.replace(make_table(make_route(name="a"), make_route(name="b"), version=3))
    return table


def test_a_change_adds_replaces_and_removes() -> None:
    table = make_two()
    changed = make_route(name="b", revision="new"), make_route(name="c")
    table.patch(TablePatch(4, 3, changed, (("default", "a"), ("default", "never-was"))))
    assert names(table) == {"b", "c"}
    assert table.find("default", "b").revision == "new"
    assert table.version == 4
    with pytest.raises(ApiError):
        table.find("default", "a")


def test_keys_are_replaced_only_where_they_changed() -> None:
    table = make_two()
    table.patch(TablePatch(4, 3))
    assert table.tenant_of(KEY.text) == "default"
    table.patch(TablePatch(5, 4, keys=()))
    assert table.tenant_of(KEY.text) is None


def test_a_change_of_another_table_is_refused_and_nothing_of_it_is_taken() -> None:
    table = make_two()
    with pytest.raises(WireError, match="change of table 2 where table 3 is"):
        table.patch(TablePatch(4, 2, gone=(("default", "a"),)))
    assert names(table) == {"a", "b"}
    assert table.version == 3


async def test_requests_follow_a_change(tmp_path: Path) -> None:
    async with serving(tmp_path, says("hi")) as (it, worker):
        it.gateway.take(TablePatch(2, 1, gone=(("default", "chat"),)))
        assert (await it.client.chat()).status == 404
        it.gateway.take(TablePatch(3, 2, (make_route(instances=(worker.routed,)),)))
        assert (await it.client.chat()).status == 200


async def test_a_change_wakes_who_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        it.table(make_route(hold_s=0.01))
        it.gateway.take(TablePatch(2, 1, (make_route(refusal="its file is gone"),)))
        answer = await it.client.chat()
    assert (answer.status, answer.error["code"]) == (503, "unit_unavailable")
