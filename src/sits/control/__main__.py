"""The process: `python -m sits.control '<settings as JSON>'`, started by the node."""

import logging
import signal
import sys

import anyio

from sits.control import Settings, run
from sits.observe import run_service

log = logging.getLogger("sits.control")


async def _run_until_terminated(settings: Settings) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(run, settings)
            async for _ in signals:
                log.info("control ends signal=SIGTERM")
                group.cancel_scope.cancel()


def _run(settings: Settings) -> None:
    anyio.run(_run_until_terminated, settings)


if __name__ == "__main__":
    sys.exit(run_service("control", sys.argv[1:], Settings, _run))
