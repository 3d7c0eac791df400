"""Where in its file what a unit says is: a field of the unit, and the file's words and line for it.

What a field is called is the unit's own, plain form (`prompt.template`, `engine.endpoints[0].url`),
whichever form and short form its file has.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from sits.spec._cluster import Form
from sits.spec._errors import SpecError
from sits.spec._words import dotted
from sits.spec._yaml import Document, Path

_PART = re.compile(r"\[(\d{1,9})\]|([^.\[\]]+)")


@dataclass(frozen=True)
class Places:
    """The places of one unit's fields."""

    document: Document = field(default_factory=Document)
    form: Form = field(default_factory=lambda: Form({}))

    def path_of(self, loc: Path) -> Path:
        """Return a path as the file has it: of a short form, only what is written there."""
        value: Any = self.document.value
        if value is None:
            return loc
        there: Path = ()
        for part in self.form.in_file(loc):
            if isinstance(value, dict) and isinstance(part, int):
                continue  # a mapping that is short for a list of one
            if isinstance(value, dict):
                there = (*there, part)
                value = value.get(str(part), {})
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                there = (*there, part)
                value = value[part]
            else:
                break
        return there

    def has(self, name: str) -> bool:
        """Return whether the file says something of a field of the unit."""
        path = _path(name)
        return bool(path) and path[0] in self.form.values

    def error(self, name: str, problem: str, source: str, *, line: int | None = None) -> SpecError:
        """Return what is wrong with a field of the unit, as an error with its place.

        Args:
            name: the field.
            problem: what is wrong.
            source: what messages call the file.
            line: the line, where it is not the field's own.
        """
        path = self.path_of(_path(name))
        if line is None and self.has(name):
            line = self.document.line_of(path)
        return SpecError(problem, source=source, line=line, field=dotted(path))

    def line_inside(self, name: str, number: int) -> int | None:
        """Return the file's line of a text's line, from 1; None where the text is no plain block.

        A text on one line has that line alone.
        """
        path = self.path_of(_path(name))
        if (first := self.document.blocks.get(path)) is not None:
            return first + number - 1
        written = self.document.written.get(path, "\n")
        return self.document.line_of(path) if number == 1 and "\n" not in written else None


NO_PLACES = Places()


def _path(name: str) -> Path:
    return tuple(int(index) if index else part for index, part in _PART.findall(name))
