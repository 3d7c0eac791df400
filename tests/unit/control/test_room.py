"""How much gateways can be told, and what happens to what is more."""

from typing import Any, cast

import msgspec
import pytest

from sits.control._errors import PlatformFull
from sits.control._room import MAX_TABLE_BYTES, Room, fit_table
from sits.control._table import Publisher
from sits.wire import (
    MAX_FRAME_BYTES,
    RoutedInstance,
    Table,
    Tier,
    UnitRoute,
    WireError,
    encode_frame,
)

SERVING = (RoutedInstance("chat-1", "/run/chat-1.sock", Tier.WARM, 4),)


def make_route(name: str, system_chars: int, template: str | None = "{{ q }}") -> UnitRoute:
    values = {"name": name, "tenant": "t", "revision": "r", "created_s": 1}
    prompt = {"system": "x" * system_chars, "template": template}
    rest = {"instances": SERVING, "refusal": None, "hold_s": 1.0, "queue_limit": 1}
    return UnitRoute(**{**values, **prompt, **rest})  # type: ignore[arg-type]


def make_table(*system_chars: int) -> Table:
    units = (make_route(f"u{place}", chars) for place, chars in enumerate(system_chars))
    return Table(7, tuple(units), ())


def test_the_limit_leaves_as_much_again_for_what_the_platform_adds() -> None:
    assert 2 * MAX_TABLE_BYTES == MAX_FRAME_BYTES == 16 * 1024 * 1024


def test_a_deploy_over_the_limit_is_refused_with_both_numbers() -> None:
    room = Room()
    room.update([make_route("u0", 10)], [])
    room.set_keys(())
    with pytest.raises(PlatformFull, match=r"83\d{5} bytes.*at most 8388608"):
        room.check(make_route("u0", MAX_TABLE_BYTES))
    room.check(make_route("u0", MAX_TABLE_BYTES - 1000))
    with pytest.raises(PlatformFull):
        room.check(make_route("u1", MAX_TABLE_BYTES - 200))
    room.update([make_route("u0", MAX_TABLE_BYTES + 1)], [])
    room.check(make_route("u0", MAX_TABLE_BYTES))  # less than it was
    room.update([], [("t", "u0")])
    assert room.taken_bytes == len(msgspec.msgpack.encode(()))


def test_the_room_that_is_taken_is_what_a_table_has() -> None:
    table, room = make_table(10, 2000, 300), Room()
    room.update(table.units, [])
    room.set_keys(table.keys)
    assert room.taken_bytes == pytest.approx(len(msgspec.msgpack.encode(table)), abs=64)


def test_a_table_that_fits_stays_as_it_is() -> None:
    table = make_table(10, 20)
    assert fit_table(table) == (table, frozenset())


def test_the_largest_units_are_refused_until_the_rest_fits_a_frame() -> None:
    third = MAX_FRAME_BYTES // 3
    table = make_table(10, third, third + 50, third - 50, 20)
    fitted, places = fit_table(table)
    assert places == {2}
    assert len(encode_frame(fitted)) <= MAX_FRAME_BYTES + 4
    bare = fitted.units[2]
    assert (bare.name, bare.system, bare.instances) == ("u2", None, ())
    assert "delete it" in (bare.refusal or "")
    same = [fitted.units[place] == table.units[place] for place in range(5)]
    assert same == [True, True, False, True, True]


def test_a_refused_unit_still_says_whether_it_has_a_template() -> None:
    # A gateway answers a query without template by itself, and would say what is not true.
    units = (make_route("a", 500, "{{ q }}"), make_route("b", 500, None))
    fitted, _ = fit_table(Table(1, units, ()), limit_bytes=10)
    assert [unit.template for unit in fitted.units] == ["", None]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(fitted), type=Table) == fitted


class Refusing:
    """A channel that takes no table."""

    closed = False

    async def send(self, _message: msgspec.Struct) -> None:
        raise WireError("a Table of 17000000 bytes is over the frame limit")

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.anyio
async def test_a_table_that_cannot_be_sent_at_all_is_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher, channel = Publisher(1), Refusing()
    await publisher.join(cast(Any, channel))
    assert (publisher.gateway_count, channel.closed) == (0, True)
    assert "over the frame limit" in caplog.text
