"""The process: `python -m sits.control '<settings as JSON>'`, started by the node.

The store's URL comes in the environment, as `SITS_STORE_URL`: it may hold a password, and a
process's arguments are for everybody on the machine to read.
"""

import logging
import os
import signal
import sys
from dataclasses import replace

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
    # What the processes that control starts (to take models in) need not know.
    url = os.environ.pop("SITS_STORE_URL", "")
    anyio.run(_run_until_terminated, replace(settings, store_url=url))


if __name__ == "__main__":
    sys.exit(run_service("control", sys.argv[1:], Settings, _run))
