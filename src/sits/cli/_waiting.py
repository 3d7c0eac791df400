"""Waiting for units, with what they are waiting for shown as it changes."""

import time
from collections.abc import Callable
from typing import Any

from sits.cli._output import CliError, Refusal

_POLL_S = 0.05

Request = Callable[[str, str], Any]


def wait_until_ready(
    request: Request,
    name: str,
    within_s: float,
    *,
    revision: str | None = None,
    show: Callable[[str], None] = lambda message: None,
) -> str:
    """Wait until a unit is ready and return its phase.

    The wait is for progress: as long as what the unit says of itself changes (a download that
    goes on), the time begins anew.

    Args:
        request: asks the platform: method and path.
        name: the unit.
        within_s: seconds without progress.
        revision: the one that has to take traffic; None: whichever does.
        show: called with the unit's message whenever it changes.

    Raises:
        CliError: it failed, or came no further in time; the message is the unit's own.
    """
    seen, until_s = "", time.monotonic() + within_s
    while True:
        status = request("GET", f"/api/v1/units/{name}")["status"]
        serves = revision is None or status["serving_revision"] == revision
        if status["phase"] == "Ready" and serves:
            return "Ready"
        if status["phase"] == "Failed":
            raise CliError(f"{name} is deployed but failed: {status['message']}")
        if status["reason"] == "RolloutFailed":
            raise CliError(f"{name} is deployed but does not roll out: {status['message']}")
        if status["message"] != seen:
            seen, until_s = status["message"], time.monotonic() + within_s
            show(seen)
        if time.monotonic() > until_s:
            raise CliError(
                f"{name} is not ready, and came no further in {within_s:g} s "
                f"({status['reason']}: {status['message']}); `sits iu events {name}` tells what "
                "happened"
            )
        time.sleep(_POLL_S)


def wait_for_condition(
    request: Request, name: str, wanted: tuple[str, str], within_s: float
) -> dict[str, str]:
    """Wait until a unit's condition has a status, and return the condition.

    Args:
        request: asks the platform: method and path.
        name: the unit.
        wanted: the condition's type and its status.
        within_s: seconds.

    Raises:
        CliError: there is no such condition, or it was not so in time.
    """
    until_s = time.monotonic() + within_s
    while True:
        conditions = request("GET", f"/api/v1/units/{name}")["status"]["conditions"]
        found = {each["type"]: each for each in conditions}
        condition: dict[str, str] | None = found.get(wanted[0])
        if condition is None:
            raise CliError(f"there is no condition '{wanted[0]}'; there are {', '.join(found)}")
        if condition["status"] == wanted[1]:
            return condition
        if time.monotonic() > until_s:
            raise CliError(
                f"{name}: {wanted[0]} is {condition['status']} after {within_s:g} s, not "
                f"{wanted[1]} ({condition['reason']}: {condition['message']})"
            )
        time.sleep(_POLL_S)


def wait_until_gone(request: Request, name: str, within_s: float) -> None:
    """Wait until a unit is not there any more.

    Args:
        request: asks the platform: method and path.
        name: the unit, as a segment of a path.
        within_s: seconds.

    Raises:
        CliError: it still was in the end.
    """
    until_s = time.monotonic() + within_s
    while True:
        try:
            request("GET", f"/api/v1/units/{name}")
        except Refusal as refusal:
            if refusal.status == 404:
                return
            raise
        if time.monotonic() > until_s:
            raise CliError(f"{name} is still there after {within_s:g} s; `sits iu get {name}`")
        time.sleep(_POLL_S)
