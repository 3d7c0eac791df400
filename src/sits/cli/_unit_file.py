"""Units' files, as commands read them: never more of one than a unit may have.

What the platform refuses, which sees no file, is said with the file and the line all the same.
"""

import json
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from sits._errors import SitsError
from sits.cli._output import CliError, Refusal

if TYPE_CHECKING:
    from sits.spec import Places

STANDARD_INPUT = Path("-")
_IN_TEMPLATE = re.compile(r"the unit's prompt template, line (\d+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class UnitFile:
    """A unit's file that was read.

    Attributes:
        source: the file's name.
        values: the unit, as JSON's types, with the prompt file that it names put in.
        notes: what the person should know.
        places: where in the file the unit's fields are.
        prompt_file: the name of the prompt file.
    """

    source: str
    values: dict[str, Any]
    notes: list[str]
    places: "Places"
    prompt_file: str | None = None

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Say of what the platform refuses inside of this where in the file it is."""
        try:
            yield
        except Refusal as error:
            if error.param is None or not self.places.has(error.param):
                raise
            raise self._place(error, error.param) from error

    def _place(self, error: Refusal, field: str) -> SitsError:
        problem = str(error)
        for known in ("the unit: ", f"{field}: ", f"{field} "):
            problem = problem.removeprefix(known)
        found = _IN_TEMPLATE.match(problem) if field == "prompt.template" else None
        if found is None:
            return self.places.error(field, problem, self.source)
        number, words = int(found[1]), found[2]
        if self.prompt_file is not None:
            words = f"{self.prompt_file}:{number}: {words}"
            return self.places.error("prompt.file", words, self.source)
        line = self.places.line_inside(field, number)
        words = words if line is not None else f"line {number} of the text: {words}"
        return self.places.error(field, words, self.source, line=line)


def read_unit(file: Path) -> UnitFile:
    """Read a unit's file, with the prompt file that it names.

    Args:
        file: its path; `-` is standard input.

    Raises:
        SpecError: it is no valid unit; the message names file, line and field.
        CliError: it cannot be read.
    """
    from sits.spec import (
        MAX_UNIT_BYTES,
        Surroundings,
        canonical_json,
        inline_prompt_file,
        load_unit_bytes,
    )

    is_input = file == STANDARD_INPUT
    source = "standard input" if is_input else str(file)
    if is_input:
        data = sys.stdin.buffer.read(MAX_UNIT_BYTES + 1)
    else:
        data = _read_start(file, MAX_UNIT_BYTES)
    directory = Path.cwd() if is_input else file.resolve().parent
    around = Surroundings(directory=str(directory), builtins=_builtin_names)
    loaded = load_unit_bytes(data, source, around)

    def read(path: PurePosixPath) -> str:
        try:
            found = (directory / path).resolve(strict=True)
        except RuntimeError as error:  # what Python 3.11 and 3.12 say of links in a circle
            raise OSError("its links lead in a circle") from error
        if not found.is_relative_to(directory):
            raise OSError("it leads out of the directory of the unit's file")
        with found.open("rb") as stream:
            data = stream.read(MAX_UNIT_BYTES + 1)
        if len(data) > MAX_UNIT_BYTES:
            raise OSError(f"it is larger than {MAX_UNIT_BYTES} bytes")
        return data.decode("utf-8")

    unit = inline_prompt_file(loaded.unit, read, source=source, places=loaded.places)
    return UnitFile(
        source,
        json.loads(canonical_json(unit)),
        list(loaded.notes),
        loaded.places,
        loaded.unit.prompt.file if loaded.unit.prompt else None,
    )


def spec_text(spec: dict[str, Any]) -> str:
    """Return a unit as YAML, as one would write it into a file."""
    import yaml

    first = [name for name in ("name", "model") if name in spec]
    ordered = {name: spec[name] for name in [*first, *sorted(spec.keys() - {*first})]}
    return yaml.safe_dump(ordered, allow_unicode=True, sort_keys=False, width=100).rstrip()


def _builtin_names() -> Collection[str]:
    from sits.models import BUILTIN_MODELS

    return tuple(BUILTIN_MODELS)


def _read_start(file: Path, size: int) -> bytes:
    """Return a file's first bytes: one more than `size` tells that it has more."""
    try:
        with file.open("rb") as stream:
            return stream.read(size + 1)
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}; give a unit's file") from error
