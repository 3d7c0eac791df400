"""The process: `python -m sits.control '<settings as JSON>'`, started by the node."""

import logging
import signal
import sys

import anyio

from sits._errors import SitsError
from sits._process import die_with_parent, set_process_name
from sits.control import Settings, SettingsError, decode_settings, run
from sits.observe import configure_logging

log = logging.getLogger("sits.control")


async def _run_until_terminated(settings: Settings) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(run, settings)
            async for _ in signals:
                log.info("control ends signal=SIGTERM")
                group.cancel_scope.cancel()


def main(arguments: list[str]) -> int:
    """Run control; return the exit status (2: it was given bad settings)."""
    # Ctrl-C reaches the whole process group; the node decides in which order things end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logging("control")
    if len(arguments) != 1:
        log.error("expected one argument, the settings as JSON; got %d", len(arguments))
        return 2
    try:
        settings = decode_settings(arguments[0])
    except SettingsError as error:
        log.error("%s", error)
        return 2
    die_with_parent(settings.parent_pid)
    set_process_name("sits-control")
    status = 0
    try:
        anyio.run(_run_until_terminated, settings)
    except* SitsError as group:
        for leaf in _leaves(group):
            log.error("control cannot run: %s", leaf)
        status = 1
    return status


def _leaves(group: BaseExceptionGroup[SitsError]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
