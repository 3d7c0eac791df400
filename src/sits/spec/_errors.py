"""The errors of `spec`.

Tree::

    SitsError
      +-- SpecError     a unit's file or document is not one that can be loaded
"""

from sits._errors import SitsError


class SpecError(SitsError):
    """A unit is not valid.

    Attributes:
        source: the file's name, or what else the text came from.
        line: its line, from 1, where it is known.
        field: the path of the field, such as `scale.min_instances`; empty for the whole.
        problem: the message without the place.
    """

    code = "invalid_unit"
    http_status = 422

    def __init__(
        self, problem: str, *, source: str = "", line: int | None = None, field: str = ""
    ) -> None:
        self.problem = problem
        self.source = source
        self.line = line
        self.field = field
        place = ":".join(part for part in (source, str(line) if line else "") if part)
        super().__init__(_printable(": ".join(part for part in (place, field, problem) if part)))


def _printable(text: str) -> str:
    """Return a message that does nothing to a terminal, whatever a file has in it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
