"""The gateway's process: `python -m sits.gateway '<settings as JSON>'`, started by the node.

SIGINT is ignored: a terminal sends it to the whole group, and it is the node that decides.
SIGTERM drains; a second one ends at once.
"""

import logging
import signal
import sys

import anyio

from sits._errors import SitsError
from sits._process import die_with_parent, set_process_name
from sits.gateway._server import run
from sits.gateway._settings import Settings, decode_settings

log = logging.getLogger("sits.gateway")


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


def main() -> int:
    """Run the process and return its exit code."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s level=%(levelname)s logger=%(name)s %(message)s",
    )
    # It logs a line for each request that the proxy makes.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    if len(sys.argv) != 2:
        log.error("usage: python -m sits.gateway '<settings as JSON>'")
        return 2
    code = 0
    try:
        settings = decode_settings(sys.argv[1])
        die_with_parent(settings.parent_pid)
        set_process_name("sits-gateway")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        anyio.run(_serve, settings, backend_options={"use_uvloop": True})
    except* SitsError as failed:
        code = 1
        for error in failed.exceptions:
            log.error("event=failed reason=%s", error)
    return code


if __name__ == "__main__":
    sys.exit(main())
