"""How a process of the platform is given its settings: one JSON document, decoded strictly.

Each service's settings are a frozen dataclass of its own; what a type cannot say it checks in
`__post_init__`. A bad value stops the start.
"""

import dataclasses
from typing import Any, TypeVar, cast

import msgspec

from sits._errors import SitsError

S = TypeVar("S")


class SettingsError(SitsError):
    """A setting that cannot be used; the message names it."""

    code = "invalid_settings"


def decode_settings(settings: type[S], text: str, owner: str) -> S:
    """Read settings from JSON.

    Args:
        settings: a dataclass.
        text: a JSON object with its fields.
        owner: whose settings they are, for the message.

    Raises:
        SettingsError: a field is missing, unknown, of another type, or out of range.
    """
    known = {field.name for field in dataclasses.fields(cast(Any, settings))}
    try:
        given = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        if unknown := sorted(given.keys() - known):
            raise SettingsError(
                f"{owner} was given the settings {unknown}; known are {sorted(known)}"
            )
        return msgspec.json.decode(text, type=settings)
    except msgspec.MsgspecError as error:
        raise SettingsError(f"the settings of {owner} cannot be read: {error}") from error
