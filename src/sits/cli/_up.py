"""`sits up` and `sits down`."""

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sits._version import __version__
from sits.cli._output import CliError, Output, OutputOption, print_json, progress, say

if TYPE_CHECKING:
    from sits.node import RunningNode, Settings

HomeOption = Annotated[
    Path | None, typer.Option(help="Directory of all that lasts. [default: $SITS_HOME]")
]
# Longer than the node itself waits: its own words are better than ours.
_START_S = 45.0
_END_S = 10.0


def up(
    home: HomeOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP port; 0 takes a free one.")] = None,
    behind_proxy: Annotated[
        bool | None,
        typer.Option("--behind-proxy", help="Something in front ends TLS and is trusted."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when it is up; `sits down` ends it.")
    ] = False,
    parent_pid: Annotated[int | None, typer.Option(hidden=True)] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Start the platform on this machine. Ctrl-C ends it."""
    from sits.node import load_settings

    flags = {"home": home, "host": host, "port": port, "behind_proxy": behind_proxy}
    settings = load_settings(flags)
    if detach:
        node, _process = start_detached(settings, flags)
        _announce(settings, node, output, "`sits down` ends it")
    else:
        _run_here(settings, parent_pid, output)


def down(home: HomeOption = None, output: OutputOption = Output.TEXT) -> None:
    """End the platform that runs on this machine."""
    from sits.node import load_settings, shut_down

    settings = load_settings({"home": home})
    ended = shut_down(settings.home)
    if output is Output.JSON:
        print_json({"ended": ended})
    else:
        say("ended" if ended else f"nothing runs on {settings.home}")


def _run_here(settings: "Settings", parent_pid: int | None, output: Output) -> None:
    import anyio

    from sits._process import die_with_parent
    from sits.node import prepare_home, run
    from sits.observe import configure_logging

    if parent_pid is not None:
        die_with_parent(parent_pid)
    configure_logging("node", prepare_home(settings.home) / "node.log")
    anyio.run(run, settings, lambda node: _announce(settings, node, output, "Ctrl-C ends it"))
    if output is Output.TEXT:
        say("ended")


def start_detached(
    settings: "Settings", flags: dict[str, Any], *, parent_pid: int | None = None
) -> "tuple[RunningNode, subprocess.Popen[bytes]]":
    """Start the platform in a process of its own and return when it takes requests.

    Args:
        settings: what `flags` gave; only its home is used.
        flags: what `sits up` shall be given.
        parent_pid: the process with which it shall end; None: it goes on.

    Raises:
        CliError: it does not come up; the message is its own.
    """
    from sits.node import prepare_home, running_node

    if (node := running_node(settings.home)) is not None:
        raise CliError(
            f"the platform is already running at {node.url} on {settings.home}; `sits down` ends "
            "it, and another one needs its own SITS_HOME and --port"
        )
    command = [sys.executable, "-P", "-m", "sits.cli", "up"]
    for name, value in (flags | {"parent_pid": parent_pid}).items():
        if value is not None and value is not False:
            option = f"--{name.replace('_', '-')}"
            command += [option] if value is True else [option, str(value)]
    words = prepare_home(settings.home) / "up.log"
    with open(words, "wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        with progress("starting the platform"):
            return _wait_until_ready(settings.home, process, words), process
    except BaseException:  # also Ctrl-C: half a start is not left to go on by itself
        process.terminate()
        process.wait(_END_S)
        raise


def _wait_until_ready(home: Path, process: subprocess.Popen[bytes], words: Path) -> "RunningNode":
    from sits.node import running_node

    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            if process.returncode == 0:
                raise CliError("the platform was ended before it was ready")
            message = words.read_text(encoding="utf-8", errors="replace").strip()
            raise CliError(message.removeprefix("error: ") or "the platform did not start")
        node = running_node(home)
        if node is not None and node.ready:
            return node
        time.sleep(0.01)
    raise CliError(f"the platform did not start within {_START_S:g} s; see {home / 'logs'}")


def _announce(settings: "Settings", node: "RunningNode", output: Output, ending: str) -> None:
    key_file = str(settings.home / "key")
    if output is Output.JSON:
        print_json({"url": node.url, "key_file": key_file, "home": str(settings.home)})
        return
    say(f"SITS {__version__} is up at {node.url}; {ending}.")
    say(f"  key    {key_file}")
    say(f"  logs   {settings.home / 'logs'}")
    say("  next   sits iu deploy --file examples/chat.yaml")
