"""A unit from text: YAML from a file, or JSON from a program.

Invariant: what comes out is valid in every field, and every note is something that the person
should know and need not act on. What goes wrong is said once, for the first field that is
wrong in the order of the file, with its line.
"""

import codecs
import json
import re
from dataclasses import dataclass
from typing import Any

import pydantic

from sits.spec._cluster import read_form
from sits.spec._errors import SpecError
from sits.spec._explain import first_error
from sits.spec._idle import idle_fields
from sits.spec._repair import repair
from sits.spec._unit import Unit
from sits.spec._words import given
from sits.spec._yaml import MAX_VALUES, Document, read_yaml

MAX_UNIT_BYTES = 256 * 1024

_BOM = "\ufeff"
# What YAML takes for text; a lone half of a surrogate pair is none either.
_NO_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Loaded:
    """A unit, and notes about how its text was read."""

    unit: Unit
    notes: tuple[str, ...]


def load_unit_bytes(data: bytes, source: str) -> Loaded:
    """Read a unit from the bytes of a YAML file.

    Args:
        data: the file's bytes; of a file that may be large, its first `MAX_UNIT_BYTES` + 1 will
            do.
        source: what messages call it: the file's name.

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
    return load_unit(text, source)


def load_unit(text: str, source: str) -> Loaded:
    """Read a unit from YAML.

    Args:
        text: the file's whole text.
        source: what messages call the text: its file's name.

    Raises:
        SpecError: it is not a valid unit.
    """
    _check_size(text, source)
    text = text.removeprefix(_BOM)
    odd = _NO_TEXT.search(text)
    if odd:
        raise SpecError(
            f"has the character U+{ord(odd.group()):04X}, which is no text; remove it",
            source=source,
            line=text.count("\n", 0, odd.start()) + 1,
        )
    return _load(read_yaml(text, source), source)


def load_unit_json(text: str, source: str) -> Loaded:
    """Read a unit from JSON. As `load_unit`, without lines.

    Raises:
        SpecError: it is not a valid unit.
    """
    _check_size(text, source)
    try:
        value = json.loads(text.removeprefix(_BOM), object_pairs_hook=_unique)
    except RecursionError as error:
        raise SpecError("is nested too deep; flatten it", source=source) from error
    except json.JSONDecodeError as error:
        raise SpecError(f"is not JSON: {error.msg}", source=source, line=error.lineno) from error
    except ValueError as error:
        raise SpecError(f"is not usable JSON: {error}", source=source) from error
    _check_characters(value, source)
    if _count(value) > MAX_VALUES:
        raise SpecError(f"has more than {MAX_VALUES} values; shorten it", source=source)
    return _load(Document(value), source)


def _load(document: Document, source: str) -> Loaded:
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
        raise first_error(error, document, form, source) from error
    return Loaded(unit, form.notes + mended + tuple(map(str, idle_fields(unit))))


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


def _check_characters(value: Any, source: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise SpecError(
            "has half of a surrogate pair, which is no character; write the character itself",
            source=source,
        ) from error


def _count(value: Any) -> int:
    """Return how many values there are in a value, itself included."""
    parts = value.values() if isinstance(value, dict) else value
    return 1 + (sum(map(_count, parts)) if isinstance(value, dict | list) else 0)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the field {name[:80]!r} is given twice; remove one")
            seen.add(name)
    return values
