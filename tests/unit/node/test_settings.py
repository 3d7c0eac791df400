"""The platform's settings: where they come from, in which order, and what is refused."""

from pathlib import Path

import pytest

from sits._settings import SettingsError
from sits.node import Settings, load_settings
from sits.runtime.engine import LLAMACPP


def test_the_defaults(tmp_path: Path) -> None:
    settings = load_settings({"home": tmp_path}, {})
    assert settings == Settings(
        home=tmp_path,
        host="127.0.0.1",
        port=7480,
        behind_proxy=False,
        public_url="",
        allowed_hosts=(),
        models_dir="",
        store_url="",
        engine=LLAMACPP,
        sequences=4,
        sequence_tokens=2048,
        pool_tokens=0,
        idle_s=60.0,
        cool_s=3600.0,
        memory_reserve=0.1,
        hold_s=30.0,
        queue_limit=64,
        start_s=60.0,
        load_s=600.0,
        first_byte_s=120.0,
        stream_idle_s=60.0,
        stream_total_s=3600.0,
        max_body_bytes=1048576,
        max_messages=2048,
        max_inputs=2048,
        max_connections=4096,
        drain_s=2.0,
        instance_drain_s=10.0,
    )


def test_flags_are_over_the_environment_and_that_is_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "sits.toml").write_text('port = 1\nidle_s = 5\nallowed_hosts = ["a", "b"]\n')
    environment = {"SITS_PORT": "2", "SITS_HOLD_S": "7.5", "HOME": "/x", "SITS_URL": "http://x"}
    settings = load_settings({"home": tmp_path, "port": None}, environment)
    assert (settings.port, settings.idle_s, settings.hold_s) == (2, 5.0, 7.5)
    assert settings.allowed_hosts == ("a", "b")
    assert load_settings({"home": tmp_path, "port": 3}, environment).port == 3
    named = load_settings({"home": tmp_path}, {"SITS_ALLOWED_HOSTS": "c, d"})
    assert named.allowed_hosts == ("c", "d")


@pytest.mark.parametrize(
    ("file", "environment", "words"),
    [
        ("prot = 1", {}, "prot"),
        ("port = ", {}, "TOML"),
        ("", {"SITS_PROT": "1"}, "SITS_PROT"),
        ("", {"SITS_PORT": "many"}, "SITS_PORT is 'many'; expected a whole number"),
        ("", {"SITS_BEHIND_PROXY": "yes"}, "SITS_BEHIND_PROXY is 'yes'; expected true or false"),
        ('port = "3"', {}, "port is '3'; expected a whole number"),
        ('allowed_hosts = "a"', {}, "allowed_hosts is 'a'; expected a list of names"),
        ("port = 65536", {}, "0 to 65535"),
        ('host = "0.0.0.0"', {}, "behind-proxy"),
        ("idle_s = 0", {}, "idle_s"),
        ("sequences = 0", {}, "sequences"),
        ("cool_s = 0", {}, "cool_s is 0"),
        ("memory_reserve = 1", {}, "memory_reserve is 1"),
        ('public_url = "sits.example"', {}, "https://"),
        ("drain_s = nan", {}, "drain_s"),
    ],
)
def test_what_cannot_be_used_stops_the_start(
    tmp_path: Path, file: str, environment: dict[str, str], words: str
) -> None:
    (tmp_path / "sits.toml").write_text(file)
    with pytest.raises(SettingsError, match=words):
        load_settings({"home": tmp_path}, environment)


def test_another_address_is_taken_behind_a_proxy(tmp_path: Path) -> None:
    flags = {"home": tmp_path, "host": "0.0.0.0", "behind_proxy": True}
    assert load_settings(flags, {}).host == "0.0.0.0"
