"""A unit from text: YAML from a file, or JSON from a program.

Invariant: what comes out is valid in every field, and every note is something that the person
should know and need not act on. What goes wrong is said once, for the first field that is
wrong in the order of the file, with its line.
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pydantic

from sits.spec._errors import SpecError
from sits.spec._repair import repair
from sits.spec._unit import SECTIONS, Unit, expected_at, field_names
from sits.spec._yaml import Document, dotted, read_yaml

MAX_UNIT_BYTES = 256 * 1024


@dataclass(frozen=True)
class Loaded:
    """A unit, and notes about how its text was read."""

    unit: Unit
    notes: tuple[str, ...]


def load_unit(text: str, source: str) -> Loaded:
    """Read a unit from YAML.

    Args:
        text: the file's whole text.
        source: what messages call the text: its file's name.

    Raises:
        SpecError: it is not a valid unit.
    """
    _check_size(text, source)
    return _load(read_yaml(text, source), source)


def load_unit_json(text: str, source: str) -> Loaded:
    """Read a unit from JSON. As `load_unit`, without lines.

    Raises:
        SpecError: it is not a valid unit.
    """
    _check_size(text, source)
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise SpecError("is nested too deep; flatten it", source=source) from error
    except json.JSONDecodeError as error:
        raise SpecError(f"is not JSON: {error.msg}", source=source, line=error.lineno) from error
    except ValueError as error:
        raise SpecError(f"is not usable JSON: {error}", source=source) from error
    return _load(Document(value), source)


def _load(document: Document, source: str) -> Loaded:
    if not isinstance(document.value, dict):
        raise SpecError(
            f"is {_given(document.value)}; expected a mapping with at least `name` and `model`",
            source=source,
            line=document.line_of(()),
        )
    _check_characters(document.value, source)
    values, mended = repair(document.value)
    try:
        unit = Unit.model_validate(values)
    except pydantic.ValidationError as error:
        raise _first_error(error, document, source) from error
    return Loaded(unit, mended + _idle_notes(unit))


def _check_size(text: str, source: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_UNIT_BYTES:
        raise SpecError(
            f"has {size} bytes; expected at most {MAX_UNIT_BYTES}: shorten it", source=source
        )


def _check_characters(value: Any, source: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise SpecError(
            "has half of a surrogate pair, which is no character; write the character itself",
            source=source,
        ) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} is given twice; remove one")
    return values


def _idle_notes(unit: Unit) -> tuple[str, ...]:
    fields = {
        "adapter": unit.adapter,
        "trainer": unit.trainer,
        "scale.trigger": unit.scale.trigger,
    }
    return tuple(
        f"{name}: '{value}' is kept, and not acted on by this version"
        for name, value in fields.items()
        if value is not None
    )


def _first_error(error: pydantic.ValidationError, document: Document, source: str) -> SpecError:
    errors = error.errors(include_url=False)
    end_of_file = 1 << 30
    first = min(
        errors,
        # A misspelled name shows as an unknown field and a missing one: the former says more.
        key=lambda item: (
            item["type"] == "missing",
            document.line_of(item["loc"]) or end_of_file,
        ),
    )
    path = first["loc"]
    return SpecError(
        _problem(first, document),
        source=source,
        line=document.line_of(path),
        field=dotted(path),
    )


def _problem(item: Any, document: Document) -> str:
    path = item["loc"]
    match item["type"]:
        case "extra_forbidden":
            names = field_names(path[:-1])
            hint = _field_hint(str(path[-1]), names, at_top=len(path) == 1)
            return f"is not a known field; {hint}expected one of: {', '.join(names)}"
        case "missing":
            return f"is missing; expected {expected_at(path)}"
        case "value_error" if path == ("model",):
            return f"{_given(item['input'])} {item['ctx']['error']}"
        case "value_error":
            return str(item["ctx"]["error"])
        case _:
            problem = f"is {_given(item['input'])}; expected {expected_at(path) or item['msg']}"
            return problem + _quote_hint(item, document)


def _field_hint(name: str, names: Sequence[str], *, at_top: bool) -> str:
    """Say where a field belongs, or which one was meant."""
    if at_top:
        for section in SECTIONS:
            if name in field_names((section,)):
                return f"it belongs under `{section}`; "
    elif name in field_names(()):
        return "it belongs at the top, without indentation; "
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`? " if near else ""


def _quote_hint(item: Any, document: Document) -> str:
    written = document.written.get(item["loc"])
    if item["type"] == "string_type" and written:
        return f'. Write "{written}" in quotes if text is meant'
    return ""


def _given(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            text = value if len(value) <= 80 else value[:77] + "..."
            return f"the text {text!r}"
        case list():
            return "a list"
        case _:
            return "a mapping"
