"""A line of the platform's logs as an object, for programs."""

import re
from typing import Any

_LINE = re.compile(
    r"(?P<time>\S+Z) (?P<level>[A-Z]+) (?P<process>\S+) (?P<logger>\S+): (?P<message>.*)"
)
# key=word, key='quoted words' or key="quoted words", as our own lines have them.
_FIELD = re.compile(r"""(?:^|\s)(?P<name>[a-z_]+)=(?P<value>'[^']*'|"[^"]*"|\S+)""")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def read_line(line: str) -> dict[str, Any]:
    """Return a line's time, level, process, logger, message, and the fields in its message.

    A line of another form is all message.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return {"message": line}
    fields = {field["name"]: _value(field["value"]) for field in _FIELD.finditer(found["message"])}
    return {**fields, **found.groupdict(), **_own_message(fields)}


def _own_message(fields: dict[str, Any]) -> dict[str, Any]:
    """A line that has a `message=` means that by its message."""
    return {"message": fields["message"]} if "message" in fields else {}


def _value(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if _NUMBER.fullmatch(text) and len(text) < 16:
        return float(text) if "." in text else int(text)
    return text
