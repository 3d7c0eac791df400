"""The small parts: choice of an instance, the inbox, settings."""

from dataclasses import dataclass, fields

import anyio
import pytest

from sits import gateway
from sits._settings import SettingsError, decode_settings
from sits.gateway import Settings
from sits.gateway._inbox import Inbox
from sits.policy import pick_instance

REQUIRED = '"control_socket": "/c", "control_api_socket": "/a", "parent_pid": 1'


@dataclass(frozen=True)
class Candidate:
    name: str
    running: int
    capacity: int
    accepting: bool = True


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([], None),
        ([Candidate("full", 2, 2)], None),
        ([Candidate("draining", 0, 2, accepting=False)], None),
        ([Candidate("none", 0, 0)], None),
        ([Candidate("a", 1, 4), Candidate("b", 0, 4)], "b"),
        ([Candidate("a", 0, 4), Candidate("b", 0, 4)], "a"),
        ([Candidate("small", 1, 2), Candidate("large", 3, 8)], "large"),
        ([Candidate("full", 4, 4), Candidate("nearly", 3, 4)], "nearly"),
    ],
)
def test_the_instance_with_the_smallest_share_in_use_is_picked(
    candidates: list[Candidate], expected: str | None
) -> None:
    picked = pick_instance(candidates)
    assert (picked and picked.name) == expected


@pytest.mark.anyio
async def test_an_inbox_keeps_the_order_and_wakes_who_waits() -> None:
    inbox: Inbox[int] = Inbox(limit=2)
    got: list[int] = []

    async def take() -> None:
        while len(got) < 3:
            got.append(await inbox.get())

    assert [inbox.put_nowait(number) for number in (1, 2, 3)] == [True, True, False]
    async with anyio.create_task_group() as group:
        group.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        assert got == [1, 2]
        assert inbox.put_nowait(4)
    assert got == [1, 2, 4]


@pytest.mark.anyio
async def test_a_cancelled_wait_loses_nothing() -> None:
    inbox: Inbox[int] = Inbox()
    with anyio.move_on_after(0):
        await inbox.get()
    inbox.put_nowait(1)
    with anyio.fail_after(1):
        assert await inbox.get() == 1


def test_the_defaults_of_the_settings() -> None:
    settings = decode_settings(Settings, "{" + REQUIRED + "}", "gateway")
    assert settings == Settings(
        control_socket="/c",
        control_api_socket="/a",
        parent_pid=1,
        host="127.0.0.1",
        port=7480,
        allowed_hosts=("localhost", "127.0.0.1", "[::1]"),
        behind_proxy=False,
        first_table_s=5.0,
        max_connections=4096,
        header_s=10.0,
        max_body_bytes=1_048_576,
        body_s=30.0,
        max_messages=2048,
        max_inputs=2048,
        max_biases=300,
        first_byte_s=120.0,
        idle_s=60.0,
        total_s=3600.0,
        api_s=300.0,
        keep_alive_s=75,
        drain_s=2.0,
    )


def test_every_setting_is_documented() -> None:
    documented = Settings.__doc__ or ""
    for field in fields(Settings):
        assert f"        {field.name}: " in documented


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("{}", "control_socket"),
        ("{" + REQUIRED + ', "prot": 1}', "prot"),
        ("{" + REQUIRED + ', "port": "x"}', "port"),
        ("{" + REQUIRED + ', "port": 65536}', "0 to 65535"),
        ("{" + REQUIRED + ', "idle_s": 0}', "idle_s"),
        ("{" + REQUIRED + ', "header_s": 0}', "header_s"),
        ("{" + REQUIRED + ', "max_connections": 0}', "max_connections"),
        ("{" + REQUIRED + ', "max_messages": 0}', "max_messages"),
        ("{" + REQUIRED + ', "max_biases": 0}', "max_biases"),
        ("{" + REQUIRED + ', "drain_s": -1}', "drain_s"),
    ],
)
def test_settings_that_make_no_sense_stop_the_start(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        decode_settings(Settings, text, "gateway")


def test_the_surface_of_the_package() -> None:
    expected = ["LOOPBACK_HOSTS", "Settings", "run"]
    assert gateway.__all__ == expected
