"""The first and the last lines of a service's process, the same for all that the node starts."""

import logging
import signal
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sits._errors import SitsError
from sits._process import die_with_parent, set_process_name
from sits._settings import SettingsError, decode_settings
from sits.observe._logs import configure_logging

log = logging.getLogger(__name__)

FAILED = 1
WRONG_USE = 2


class ServiceSettings(Protocol):
    """What every service's settings have."""

    @property
    def parent_pid(self) -> int:
        """The process that started it, and with which it ends."""
        ...


S = TypeVar("S", bound=ServiceSettings)


def run_service(
    name: str, arguments: Sequence[str], settings: type[S], body: Callable[[S], None]
) -> int:
    """Run a service's process and return its exit status.

    It dies with the process that started it, and ignores SIGINT: a terminal sends that to the
    whole group, and the node decides in which order things end.

    Args:
        name: of the service, for logs and `ps`.
        arguments: one, its settings as JSON.
        settings: the dataclass that they are.
        body: the service; an error of SITS that it raises is logged and ends it with status 1.
    """
    configure_logging(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if len(arguments) != 1:
        log.error("expected one argument, the settings as JSON; got %d", len(arguments))
        return WRONG_USE
    try:
        decoded = decode_settings(settings, arguments[0], name)
    except SettingsError as error:
        log.error("%s", error)
        return WRONG_USE
    die_with_parent(decoded.parent_pid)
    set_process_name(f"sits-{name}")
    status = 0
    try:
        body(decoded)
    except* SitsError as group:
        status = FAILED
        for leaf in _leaves(group):
            log.error("%s cannot go on: %s", name, leaf)
    return status


def _leaves(group: BaseExceptionGroup[SitsError]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
