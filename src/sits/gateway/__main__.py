"""The gateway's process: `python -m sits.gateway '<settings as JSON>'`, started by the node.

SIGTERM drains; a second one ends at once.
"""

import logging
import resource
import signal
import sys

import anyio

from sits.gateway._server import run
from sits.gateway._settings import Settings
from sits.observe import run_service

# Links to instances and to control, the log, the event loop's own.
_OTHER_FILES = 512

log = logging.getLogger(__name__)


async def _serve(settings: Settings) -> None:
    stop = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_watch_signals, stop, group.cancel_scope)
        await run(settings, stop=stop)
        group.cancel_scope.cancel()


async def _watch_signals(stop: anyio.Event, everything: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            if stop.is_set():
                everything.cancel()
            stop.set()


def _allow_files(connections: int) -> None:
    """Let the process have as many files open as its connections need, if it may."""
    wanted = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning(
            "event=few_files allowed=%d wanted=%d hint='raise the hard limit (ulimit -Hn), or "
            "lower max_connections'",
            allowed,
            wanted,
        )


def _run(settings: Settings) -> None:
    # They log a line for each request that the proxy makes, and for each start and end.
    for name in ("httpx2", "uvicorn"):
        logging.getLogger(name).setLevel(logging.WARNING)
    _allow_files(settings.max_connections)
    anyio.run(_serve, settings, backend_options={"use_uvloop": True})


if __name__ == "__main__":
    sys.exit(run_service("gateway", sys.argv[1:], Settings, _run))
