"""Units' names as arguments, which the shell completes by asking the platform that runs.

A shell waits while a person types: what is not there in half a second is not completed, and nothing
is ever said, whatever is wrong.
"""

import contextlib
from typing import Annotated

import typer

from sits._errors import SitsError

_PATIENCE_S = 0.5


def complete_unit(incomplete: str) -> list[str]:
    """Return the names of units that begin so; none where no platform answers in time."""
    # What a foreign server under SITS_URL answers may be of any shape.
    with contextlib.suppress(SitsError, OSError, LookupError, TypeError, ValueError):
        from sits.cli._client import connect

        with connect(patience_s=_PATIENCE_S) as api:
            # Answered by the gateway alone, from its table.
            names = [str(card["id"]) for card in api.request("GET", "/v1/models")["data"]]
        return sorted(name for name in names if name.startswith(incomplete))
    return []


NameArgument = Annotated[str, typer.Argument(help="The unit's name.", autocompletion=complete_unit)]
