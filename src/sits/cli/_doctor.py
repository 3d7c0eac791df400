"""`sits doctor`: what this machine has, what is missing, and what to do about it."""

import os
import platform
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import util
from pathlib import Path

import typer

from sits._errors import SitsError
from sits.cli._output import Output, OutputOption, print_json


@dataclass(frozen=True)
class _Finding:
    """One check: what was found, and what to do where it is not well."""

    check: str
    ok: bool
    found: str
    remedy: str = ""


def doctor(output: OutputOption = Output.TEXT) -> None:
    """Check this machine and the platform on it; exit 1 when something must be mended."""
    findings = [check() for check in _CHECKS]
    if output is Output.JSON:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            mark = typer.style("ok  ", fg="green") if finding.ok else typer.style("MEND", fg="red")
            typer.echo(f"{mark}  {finding.check:<9} {finding.found}")
            if not finding.ok:
                typer.echo(f"                {finding.remedy}")
    raise typer.Exit(0 if all(finding.ok for finding in findings) else 1)


def _python() -> _Finding:
    version = platform.python_version()
    ok = sys.version_info >= (3, 11)
    return _Finding("python", ok, f"{version} at {sys.executable}", "use Python 3.11 or newer")


def _system() -> _Finding:
    found = f"{platform.system()} {platform.release()} on {platform.machine()}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    ok = sys.platform in {"linux", "darwin"}
    return _Finding("system", ok, f"{found}, {cores} cores", "use Linux (or macOS to develop)")


def _engine() -> _Finding:
    from importlib import metadata

    remedy = "run `make` in a checkout, which builds it once with the flags that it needs"
    if util.find_spec("llama_cpp") is None:
        return _Finding("engine", False, "llama-cpp-python is not installed", remedy)
    return _Finding("engine", True, f"llama-cpp-python {metadata.version('llama-cpp-python')}")


def _model() -> _Finding:
    from sits.models import BUILTIN_MODELS, resolve
    from sits.spec import parse_model_reference

    name = next(iter(BUILTIN_MODELS))
    try:
        model = resolve(parse_model_reference(f"builtin://{name}"), home=Path())
    except SitsError as error:
        return _Finding("model", False, str(error), "see above")
    return _Finding("model", True, f"builtin://{name}, {model.size_bytes / 1e6:.0f} MB")


def _settings() -> _Finding:
    from sits.node import load_settings

    try:
        settings = load_settings()
    except SitsError as error:
        return _Finding("settings", False, str(error), "mend sits.toml or the environment")
    return _Finding("settings", True, f"home {settings.home}, port {settings.port}")


def _node() -> _Finding:
    from sits.node import load_settings, running_node

    try:
        settings = load_settings()
    except SitsError:
        return _Finding("platform", False, "unknown", "mend the settings first")
    node = running_node(settings.home)
    if node is not None:
        return _Finding("platform", True, f"runs at {node.url}")
    with socket.socket() as probe:
        probe.settimeout(1.0)
        taken = probe.connect_ex((settings.host, settings.port)) == 0
    if taken and settings.port:
        remedy = "another program listens there: choose another port with --port"
        return _Finding("platform", False, f"port {settings.port} is taken", remedy)
    return _Finding("platform", True, "does not run; `sits up` starts it")


_CHECKS: tuple[Callable[[], _Finding], ...] = (
    _python,
    _system,
    _engine,
    _model,
    _settings,
    _node,
)
