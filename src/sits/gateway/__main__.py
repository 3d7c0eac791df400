"""The gateway's process: `python -m sits.gateway '<settings as JSON>'`, started by the node.

SIGTERM drains; a second one ends at once.
"""

import logging
import signal
import sys

import anyio

from sits.gateway._server import run
from sits.gateway._settings import Settings
from sits.observe import run_service


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


def _run(settings: Settings) -> None:
    # They log a line for each request that the proxy makes, and for each start and end.
    for name in ("httpx2", "uvicorn"):
        logging.getLogger(name).setLevel(logging.WARNING)
    anyio.run(_serve, settings, backend_options={"use_uvloop": True})


if __name__ == "__main__":
    sys.exit(run_service("gateway", sys.argv[1:], Settings, _run))
