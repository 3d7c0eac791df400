"""The platform's settings, built once, at the edge.

Rising order: the defaults below, `$SITS_HOME/sits.toml`, environment `SITS_NAME`, flags. A name
that is not known, or a value that does not fit, stops the start with a message.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import platformdirs

from sits._settings import SettingsError
from sits.trust import ENVIRONMENT_PREFIX

# `sits.runtime.engine.LLAMACPP`, whose package takes its time to import; a test compares them.
LLAMACPP = "sits.runtime.engine.llamacpp:load"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Name, least, most. The documents are made from it, too.
RANGES: tuple[tuple[str, float, float], ...] = (
    ("port", 0, 65535),
    ("sequences", 1, 64),
    ("sequence_tokens", 64, 1 << 20),
    ("pool_tokens", 0, 1 << 24),
    ("idle_s", 0.1, 1e6),
    ("cool_s", 0.1, 1e7),
    ("memory_reserve", 0, 0.9),
    ("hold_s", 0.1, 3600),
    ("queue_limit", 1, 1 << 20),
    ("start_s", 0.1, 1e6),
    ("load_s", 0.1, 1e6),
    ("first_byte_s", 0.1, 1e6),
    ("stream_idle_s", 0.1, 1e6),
    ("stream_total_s", 0.1, 1e6),
    ("max_body_bytes", 1024, 1 << 24),
    ("max_messages", 1, 1 << 20),
    ("max_inputs", 1, 1 << 20),
    ("max_connections", 1, 1 << 20),
    ("drain_s", 0, 3600),
    ("instance_drain_s", 0, 3600),
)
_EXPECTED = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
_NOT_SETTINGS = frozenset({"SITS_HOME", "SITS_CACHE", "SITS_URL", "SITS_API_KEY"})


def _default_home() -> Path:
    return Path(os.environ.get("SITS_HOME") or platformdirs.user_data_dir("sits"))


@dataclass(frozen=True)
class Settings:
    """Settings of one machine's platform.

    Attributes:
        home: directory of all that lasts: the store, the local key, logs.
        host: address to listen on; another than loopback needs `behind_proxy`.
        port: TCP port; 0 takes a free one.
        behind_proxy: something in front of the platform ends TLS and is trusted.
        public_url: what endpoints begin with, when it is not the address listened on.
        allowed_hosts: names, beside loopback's, that a request's `Host` may have.
        models_dir: directory of models, which several platforms may share; empty: `models` in
            the home directory.
        store_url: of a PostgreSQL database for all records; empty: a file of SQLite in the home
            directory.
        engine: the engine's factory, `package.module:function`.
        sequences: requests that one instance runs at once.
        sequence_tokens: the longest prompt and answer together.
        pool_tokens: room for so many tokens in an instance's pool, of all its sequences together;
            0: for half of them at their longest. What finds no room waits in memory.
        idle_s: seconds without a request after which a unit goes to its minimum.
        cool_s: seconds without a request after which a unit's template goes too, and the model's
            host with the last one; a unit's `scale.cool_after` is over it.
        memory_reserve: the share of the machine's memory that is to be left free: where it is
            not, templates that nothing needs go before their time.
        hold_s: seconds that a request may wait for an instance.
        queue_limit: requests of one unit that may wait at once; the next is answered 429.
        start_s: seconds that an instance may take to come up.
        load_s: seconds that a model's host may take to load it.
        first_byte_s: seconds from an instance's taking a request to its first piece.
        stream_idle_s: seconds between two pieces of an answer.
        stream_total_s: seconds from an answer's first piece to its end.
        max_body_bytes: the longest body of a request.
        max_messages: the most messages of one chat.
        max_inputs: the most inputs of one request for embeddings.
        max_connections: the most connections at once; the next is answered 503.
        drain_s: seconds that running answers get to finish when the platform stops.
        instance_drain_s: seconds that they get when one instance stops.
    """

    home: Path = field(default_factory=_default_home)
    host: str = "127.0.0.1"
    port: int = 7480
    behind_proxy: bool = False
    public_url: str = ""
    allowed_hosts: tuple[str, ...] = ()
    models_dir: str = ""
    store_url: str = field(default="", repr=False)
    engine: str = LLAMACPP
    sequences: int = 4
    sequence_tokens: int = 2048
    pool_tokens: int = 0
    idle_s: float = 60.0
    cool_s: float = 3600.0
    memory_reserve: float = 0.1
    hold_s: float = 30.0
    queue_limit: int = 64
    start_s: float = 60.0
    load_s: float = 600.0
    first_byte_s: float = 120.0
    stream_idle_s: float = 60.0
    stream_total_s: float = 3600.0
    max_body_bytes: int = 1024 * 1024
    max_messages: int = 2048
    max_inputs: int = 2048
    max_connections: int = 4096
    drain_s: float = 2.0
    instance_drain_s: float = 10.0

    def __post_init__(self) -> None:
        """Check what a type cannot say."""
        if self.host not in _LOOPBACK and not self.behind_proxy:
            raise SettingsError(
                f"host is {self.host!r}, which others can reach, and there is no TLS; bind "
                "127.0.0.1, or say --behind-proxy when something in front ends TLS"
            )
        if self.public_url and not self.public_url.startswith(("http://", "https://")):
            raise SettingsError(
                f"public_url is {self.public_url!r}; expected such as https://sits.example"
            )
        for name, low, high in RANGES:
            if not low <= getattr(self, name) <= high:
                raise SettingsError(
                    f"{name} is {getattr(self, name)}; expected a number from {low} to {high}"
                )
        if 0 < self.pool_tokens < self.sequence_tokens:
            raise SettingsError(
                f"pool_tokens is {self.pool_tokens}, and sequence_tokens {self.sequence_tokens}; "
                "expected 0, or room for the longest sequence"
            )

    @property
    def models_path(self) -> Path:
        """The directory of models."""
        return Path(self.models_dir).absolute() if self.models_dir else self.home / "models"


def load_settings(
    flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Build the settings.

    Args:
        flags: what the command line says; values that are None say nothing.
        environment: `os.environ` when None.

    Raises:
        SettingsError: a file, variable or flag that cannot be used; the message names it.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    home = Path(given.pop("home", None) or _default_home()).absolute()
    values = _from_file(home / "sits.toml")
    values |= _from_environment(os.environ if environment is None else environment)
    values |= given
    return Settings(home=home, **values)


def _types() -> dict[str, Any]:
    types = get_type_hints(Settings)
    del types["home"]
    return types


def _from_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path} is no TOML: {error}") from error
    types = _types()
    unknown = sorted(values.keys() - types)
    if unknown:
        raise SettingsError(f"{path}: unknown settings {unknown}; known are {sorted(types)}")
    return {name: _convert(value, types[name], f"{path}: {name}") for name, value in values.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    types = _types()
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith("SITS_") or variable in _NOT_SETTINGS:
            continue
        if variable.startswith(ENVIRONMENT_PREFIX):  # a secret for endpoints elsewhere
            continue
        name = variable.removeprefix("SITS_").lower()
        if name not in types:
            raise SettingsError(
                f"{variable} is set, but there is no such setting; known are "
                f"{sorted('SITS_' + known.upper() for known in types)}"
            )
        given: Any = text
        if name == "allowed_hosts":
            given = [part.strip() for part in text.split(",") if part.strip()]
        values[name] = _convert(given, types[name], variable, strict=False)
    return values


def _convert(value: Any, wanted: Any, origin: str, *, strict: bool = True) -> Any:
    """Return a value of the setting's type. Words are taken for numbers unless `strict`."""
    try:
        return msgspec.convert(value, wanted, strict=strict)
    except msgspec.ValidationError as error:
        expected = _EXPECTED.get(wanted, "a list of names")
        raise SettingsError(f"{origin} is {value!r}; expected {expected}") from error
