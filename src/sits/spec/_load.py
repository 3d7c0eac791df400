"""A unit from text: YAML from a file, or JSON from a program.

Invariant: what comes out is valid in every field, and every note is something that the person
should know and need not act on. What goes wrong is said once, for the first field that is
wrong in the order of the file, with its line.
"""

import codecs
import json
import re
from dataclasses import dataclass, field
from typing import Any

import pydantic

from sits.spec._cluster import read_form
from sits.spec._endpoint_url import is_in_the_clear
from sits.spec._errors import SpecError
from sits.spec._explain import first_error
from sits.spec._idle import idle_fields
from sits.spec._places import NO_PLACES, Places
from sits.spec._reference_words import NOWHERE, Surroundings
from sits.spec._repair import repair
from sits.spec._text import find_no_text, odd_character, walk_values
from sits.spec._unit import Unit
from sits.spec._words import dotted, given
from sits.spec._yaml import MAX_VALUES, Document, read_yaml

MAX_UNIT_BYTES = 256 * 1024

_BOM = "\ufeff"
# No unit says as many; Python's own limit is not for people.
_MAX_DIGITS = 100
_CONSTANT = re.compile(r"\{\{[^{}]{0,60}\}?\}?|\{%[^%]{0,60}%?\}?")


@dataclass(frozen=True)
class Loaded:
    """A unit, and notes about how its text was read.

    Attributes:
        places: where in the text the unit's fields are.
    """

    unit: Unit
    notes: tuple[str, ...]
    places: Places = field(default=NO_PLACES, compare=False, repr=False)


def load_unit_bytes(data: bytes, source: str, around: Surroundings = NOWHERE) -> Loaded:
    """Read a unit from the bytes of a YAML file.

    Args:
        data: the file's bytes; of a file that may be large, its first `MAX_UNIT_BYTES` + 1 will
            do.
        source: what messages call it: the file's name.
        around: makes what messages suggest right.

    Raises:
        SpecError: it is not a valid unit.
    """
    if len(data) > MAX_UNIT_BYTES:
        raise _too_large(source)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SpecError("is UTF-16; expected UTF-8: save it as UTF-8", source=source)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"has a byte that is no UTF-8 (0x{data[error.start]:02x}); save it as UTF-8",
            source=source,
            line=data.count(b"\n", 0, error.start) + 1,
        ) from error
    return load_unit(text, source, around)


def load_unit(text: str, source: str, around: Surroundings = NOWHERE) -> Loaded:
    """Read a unit from YAML.

    Args:
        text: the file's whole text.
        source: what messages call the text: its file's name.
        around: makes what messages suggest right.

    Raises:
        SpecError: it is not a valid unit.
    """
    _check_size(text, source)
    text = text.removeprefix(_BOM)
    odd = find_no_text(text)
    if odd:
        line = text.count("\n", 0, odd.start()) + 1
        raise SpecError(odd_character(text), source=source, line=line)
    return _load(read_yaml(text, source), source, around)


def load_unit_json(text: str, source: str) -> Loaded:
    """Read a unit from JSON. As `load_unit`, without lines.

    Raises:
        SpecError: it is not a valid unit.
    """
    _check_size(text, source)
    try:
        value = json.loads(
            text.removeprefix(_BOM), object_pairs_hook=_unique, parse_int=_whole_number
        )
    except RecursionError as error:
        raise SpecError("is nested too deep; flatten it", source=source) from error
    except json.JSONDecodeError as error:
        raise SpecError(f"is not JSON: {error.msg}", source=source, line=error.lineno) from error
    except ValueError as error:
        raise SpecError(f"is not usable JSON: {error}", source=source) from error
    return _load(Document(value), source, NOWHERE)


def _load(document: Document, source: str, around: Surroundings) -> Loaded:
    _check_values(document, source)
    if not isinstance(document.value, dict):
        raise SpecError(
            f"is {given(document.value)}; expected a mapping with at least `name` and `model`",
            source=source,
            line=document.line_of(()),
        )
    form = read_form(document, source)
    values, mended = repair(form.values)
    try:
        unit = Unit.model_validate(values)
    except pydantic.ValidationError as error:
        raise first_error(error, Places(document, form), source, around) from error
    notes = form.notes + mended + _keys_in_the_clear(unit) + _constant_text(unit)
    return Loaded(unit, notes + tuple(map(str, idle_fields(unit))), Places(document, form))


def _keys_in_the_clear(unit: Unit) -> tuple[str, ...]:
    return tuple(
        f"engine.endpoints[{index}].url: the key {endpoint.secret!r} is sent to {endpoint.url!r} "
        "unencrypted; write https:// unless nobody can listen in between"
        for index, endpoint in enumerate(unit.engine.endpoints)
        if endpoint.secret and is_in_the_clear(endpoint.url)
    )


def _constant_text(unit: Unit) -> tuple[str, ...]:
    found = _CONSTANT.search(unit.prompt.system or "") if unit.prompt else None
    if found is None:
        return ()
    said = f"is constant text, and '{found.group()}' is not filled in there"
    return (f"prompt.system: {said}: put it into prompt.template",)


def _check_size(text: str, source: str) -> None:
    # A character has at least one byte: a long text is not encoded to be counted.
    if len(text) > MAX_UNIT_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_UNIT_BYTES:
        raise _too_large(source)


def _too_large(source: str) -> SpecError:
    return SpecError(
        f"is larger than {MAX_UNIT_BYTES} bytes; expected a unit of at most {MAX_UNIT_BYTES}: "
        "shorten it",
        source=source,
    )


def _check_values(document: Document, source: str) -> None:
    """Check that there are not too many values, and that all texts, names as well, are text."""
    for count, (path, value) in enumerate(walk_values(document.value), 1):
        if count > MAX_VALUES:
            raise SpecError(f"has more than {MAX_VALUES} values; shorten it", source=source)
        texts = [*value] if isinstance(value, dict) else [value] if isinstance(value, str) else []
        if problem := next(filter(None, map(odd_character, texts)), ""):
            raise SpecError(problem, source=source, line=document.line_of(path), field=dotted(path))


def _whole_number(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(
            f"a number has {len(digits)} digits; expected at most {_MAX_DIGITS}: shorten it"
        )
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the field {name[:80]!r} is given twice; remove one")
            seen.add(name)
    return values
