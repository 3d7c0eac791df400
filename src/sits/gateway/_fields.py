"""Reading the fields of a request, one by one, until none is left over.

A field that is not known is an error with the nearest known name, never ignored: a caller who
asks for something must not get an answer made without it. `null` means "not given".
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from sits.gateway._body import check_plain, kind_of
from sits.gateway._errors import ApiError, invalid, shorten


class Fields:
    """The fields of one object that have not been read yet.

    Args:
        values: the object.
        where: its path in the request, for messages; empty for the request itself.
    """

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        self._values = dict(values)
        self._where = where
        self._known: list[str] = []

    def path(self, name: str) -> str:
        """Return a field's path in the request."""
        return f"{self._where}.{name}" if self._where else name

    def take(self, name: str) -> Any:
        """Return a field's value as it is, None when it is not given."""
        self._known.append(name)
        return self._values.pop(name, None)

    def text(self, name: str) -> str:
        """Return a string that has to be given."""
        value = self.take(name)
        if value is None:
            raise self.missing(name, "a string")
        if not isinstance(value, str):
            raise self.wrong(name, value, "a string")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean, False when it is not given."""
        value = self.take(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def number(self, name: str, expected: str, low: float, high: float) -> float | None:
        """Return a number from `low` to `high`, both included."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, value, expected)
        if not low <= value <= high:
            raise self.wrong(name, value, expected)
        return float(value)

    def integer(self, name: str, expected: str, low: int, high: int) -> int | None:
        """Return an integer from `low` to `high`, both included."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, value, expected)
        return value

    def mapping(self, name: str) -> dict[str, Any] | None:
        """Return an object."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        check_plain(value, self.path(name))
        return value

    def finish(self, aliases: Iterable[str] = ()) -> None:
        """Check that every field has been read."""
        for name in self._values:
            path = self.path(shorten(name))
            near = difflib.get_close_matches(shorten(name), [*self._known, *aliases], 1)
            hint = f"did you mean {near[0]!r}?" if near else "leave it out"
            raise invalid(path, f"the field {path!r} is not known; {hint}", "unknown_parameter")

    def missing(self, name: str, expected: str) -> ApiError:
        """Return the error for a field that has to be given."""
        path = self.path(name)
        return invalid(path, f"{path!r} is missing; expected {expected}", "missing_parameter")

    def wrong(self, name: str, value: object, expected: str) -> ApiError:
        """Return the error for a value that cannot be taken."""
        path = self.path(name)
        return invalid(path, f"{path!r} is {_show(value)}; expected {expected}")


def _show(value: object) -> str:
    """Return a value for a message: short ones as they are, long ones by their kind."""
    if isinstance(value, bool | int | float) and len(text := str(value)) <= 40:
        return text.lower() if isinstance(value, bool) else text
    if isinstance(value, str) and len(value) <= 40:
        return repr(value)
    if isinstance(value, list | str):
        return f"{kind_of(value)} of length {len(value)}"
    return kind_of(value)
