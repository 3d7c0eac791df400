"""Control's settings: defaults, and bad values that stop the start."""

import dataclasses
import json

import pytest

from sits._settings import SettingsError, decode_settings
from sits.control import Settings
from tests.unit.control.builders import make_settings

GIVEN = dataclasses.asdict(make_settings())


def test_the_defaults() -> None:
    settings = make_settings()
    assert (settings.idle_s, settings.hold_s, settings.queue_limit) == (60.0, 30.0, 64)
    assert (settings.cool_s, settings.memory_reserve) == (3600.0, 0.1)
    assert (settings.instance_drain_s, settings.start_s, settings.load_s) == (10.0, 60.0, 600.0)


def test_settings_come_back_from_their_json() -> None:
    assert decode_settings(Settings, json.dumps(GIVEN), "control") == make_settings()


def test_every_setting_is_documented() -> None:
    documented = Settings.__doc__ or ""
    assert all(f"{field.name}:" in documented for field in dataclasses.fields(Settings))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"idle_s": 0}, "idle_s is 0"),
        ({"cool_s": 0}, "cool_s is 0"),
        ({"memory_reserve": 1}, "memory_reserve is 1"),
        ({"queue_limit": -1}, "queue_limit is -1"),
        ({"instance_drain_s": -0.5}, "instance_drain_s is -0.5"),
        ({"start_s": 0}, "start_s is 0"),
        ({"load_s": 0}, "load_s is 0"),
        ({"public_url": "127.0.0.1"}, "http://"),
        ({"idle_s": "60"}, "cannot be read"),
        ({"idel_s": 3}, "idel_s"),
    ],
)
def test_a_bad_value_stops_the_start(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        decode_settings(Settings, json.dumps(GIVEN | changes), "control")


def test_a_missing_value_is_named() -> None:
    given = {name: value for name, value in GIVEN.items() if name != "home"}
    with pytest.raises(SettingsError, match="home"):
        decode_settings(Settings, json.dumps(given), "control")
