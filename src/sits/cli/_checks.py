"""What `sits doctor` looks at."""

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sits._errors import SitsError
from sits.cli._client import local_key
from sits.cli._output import CliError
from sits.models import BUILTIN_MODELS, builtin_path
from sits.node import Settings, load_settings, running_node


@dataclass(frozen=True)
class Finding:
    """One check: what was found, and what to do where it is not well."""

    check: str
    ok: bool
    found: str
    remedy: str = ""


_UNKNOWN_ENGINE = Finding("engine", False, "unknown", "mend the settings first")


def _python() -> Finding:
    version = platform.python_version()
    ok = sys.version_info >= (3, 11)
    return Finding("python", ok, f"{version} at {sys.executable}", "use Python 3.11 or newer")


def _system() -> Finding:
    found = f"{platform.system()} {platform.release()} on {platform.machine()}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    ok = sys.platform in {"linux", "darwin"}
    return Finding("system", ok, f"{found}, {cores} cores", "use Linux (or macOS to develop)")


def _engine() -> Finding:
    """Import the engine, in a process of its own: a native library may end the one it is in."""
    try:
        factory = load_settings().engine
    except SitsError:
        return _UNKNOWN_ENGINE
    module = factory.partition(":")[0]
    code = "import importlib, sys; importlib.import_module(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, module], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return Finding("engine", True, factory)
    words = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
    remedy = "run `make clean` and `make ready` in a checkout, which build and install it"
    return Finding("engine", False, f"{factory} cannot be imported: {words[-1]}", remedy)


def _model(name: str) -> Finding:
    try:
        size_bytes = builtin_path(name).stat().st_size
    except SitsError as error:
        return Finding("model", False, f"builtin://{name} is not there", str(error))
    return Finding("model", True, f"builtin://{name}, {size_bytes / 1e6:.0f} MB")


def _settings() -> Finding:
    try:
        settings = load_settings()
    except SitsError as error:
        return Finding("settings", False, str(error), "mend sits.toml or the environment")
    return Finding("settings", True, f"{settings.host} port {settings.port}")


def _home() -> Finding:
    home = Settings().home
    there = next(path for path in (home, *home.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding("home", False, f"{home} cannot be written", "choose another: SITS_HOME")
    if (home / "key").exists():
        try:
            local_key(home)
        except CliError as error:
            return Finding("home", False, str(error), "remove the file, and start again")
    found = f"{home} (key: {home / 'key'}, logs: {home / 'logs'})"
    return Finding("home", True, found)


def _platform() -> Finding:
    try:
        settings = load_settings()
    except SitsError:
        return Finding("platform", False, "unknown", "mend the settings first")
    node = running_node(settings.home)
    if node is not None:
        return Finding("platform", True, f"runs at {node.url}")
    with socket.socket() as probe:
        probe.settimeout(1.0)
        taken = settings.port and probe.connect_ex((settings.host, settings.port)) == 0
    if taken:
        remedy = "something else listens there: `sits up --port N`, or SITS_PORT=N"
        return Finding("platform", False, f"port {settings.port} is taken", remedy)
    return Finding("platform", True, "does not run; `sits up` starts it")


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _system,
    _engine,
    *(partial(_model, name) for name in BUILTIN_MODELS),
    _settings,
    _home,
    _platform,
)
