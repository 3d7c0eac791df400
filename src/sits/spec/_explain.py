"""What people are told about a value that a field cannot have.

pydantic finds what is wrong; here it is put into words, with the line of the file, what was
given, what was expected, and the nearest spelling that would have been right. What goes wrong is
said once, for the first field that is wrong in the order of the file.
"""

import re
import unicodedata
from dataclasses import replace
from typing import Any

import pydantic

from sits.spec._adapter import parse_adapter_reference
from sits.spec._cluster import METADATA, Form
from sits.spec._errors import SpecError
from sits.spec._field_hints import field_hint
from sits.spec._fields import DNS_LABEL
from sits.spec._keys import without_keys
from sits.spec._places import Places
from sits.spec._reference import parse_model_reference
from sits.spec._reference_words import SERVERS, Surroundings, server_of
from sits.spec._unit import expected_at, field_names
from sits.spec._words import dotted, given, nearest
from sits.spec._yaml import Document

_LOOPBACK = re.compile(
    r"(\w+://)?(localhost|[\w-]+\.localhost|127(\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])([:/]|$)",
    re.ASCII,
)
_LIKE_WHOLE = re.compile(r"\+?\s*0*(\d[\d_, ]{0,17})(\.0*)?\s*", re.ASCII)


def first_error(
    error: pydantic.ValidationError, places: Places, source: str, around: Surroundings
) -> SpecError:
    """Return the first thing that is wrong, in the order of the file."""
    document, form = places.document, places.form
    end_of_file = 1 << 30
    first = min(
        error.errors(include_url=False),
        # A misspelled name shows as an unknown field and a missing one: the former says more.
        key=lambda item: (
            item["type"] == "missing",
            document.line_of(form.in_file(item["loc"])) or end_of_file,
        ),
    )
    path = places.path_of(first["loc"])
    return SpecError(
        _problem(first, document, form, around),
        source=source,
        line=document.line_of(path),
        field=dotted(path),
    )


def _problem(item: Any, document: Document, form: Form, around: Surroundings) -> str:
    path = item["loc"]
    match item["type"]:
        case "extra_forbidden":
            names, hint = field_names(path[:-1]), field_hint(path)
            if form.is_cluster and len(path) == 1:
                names = tuple(name for name in names if name not in METADATA)
                hint = "it belongs under `metadata`; " if path[0] in METADATA.values() else hint
            return f"is not a known field; {hint}expected one of: {', '.join(names)}"
        case "missing":
            return f"is missing; expected {expected_at(path)}"
        case "too_long" if "actual_length" in item["ctx"]:
            return f"has too many items; expected at most {item['ctx']['max_length']}"
        case "value_error":
            return _reference_problem(item, form, around) or str(item["ctx"]["error"])
        case _:
            problem = f"is {given(item['input'])}; expected {expected_at(path) or item['msg']}"
            return problem + _value_hint(item, document.written.get(form.in_file(path)))


def _reference_problem(item: Any, form: Form, around: Surroundings) -> str:
    """Return what is wrong with a reference, as it is seen where the unit's file lies."""
    path, value = item["loc"], item["input"]
    parse = {("model",): parse_model_reference, ("lora", "adapter"): parse_adapter_reference}.get(
        tuple(part for part in path if isinstance(part, str))
    )
    if parse is None or not isinstance(value, str):
        return ""
    engine = form.values.get("engine")
    kind = engine.get("kind") if isinstance(engine, dict) else engine
    here = replace(around, engine=kind if isinstance(kind, str) else "")
    try:
        parse(value, here)
    except ValueError as error:
        return f"{given(value)} {error}"
    return ""


def _value_hint(item: Any, written: str | None) -> str:
    value, kind, context = item["input"], item["type"], item.get("ctx", {})
    if isinstance(value, str) and without_keys(value) != value:
        return ""
    if kind == "string_type":
        return f'. Write "{written}" in quotes if text is meant' if written else ""
    if kind == "int_type":
        found = _LIKE_WHOLE.fullmatch(str(value)) if isinstance(value, str | float) else None
        return f": write {re.sub('[_, ]', '', found[1])}" if found else ""
    if kind == "enum":
        known = re.findall(r"'([^']*)'", context["expected"])
        if "llamacpp" in known and isinstance(value, str) and (server := server_of(value)):
            return (
                f"; {server[0]} is a server of its own, reached with model: openai://NAME: write "
                f"{{kind: openai, endpoints: [{SERVERS[server[0]]}]}}"
            )
        near = nearest(value, known, cutoff=0.7) if isinstance(value, str) else None
        return f": write {near}" if near else ""
    if kind == "string_pattern_mismatch" and isinstance(value, str) and len(value) <= 256:
        meant = _text_meant(value.strip(), context["pattern"])
        return f": write {meant}" if meant else ""
    return ""


def _text_meant(text: str, pattern: str) -> str | None:
    if pattern == DNS_LABEL:
        plain = unicodedata.normalize("NFKD", text.casefold())
        plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
        label = re.sub(r"[^a-z0-9]+", "-", plain, flags=re.ASCII).strip("-")[:63]
        meant = label.strip("-")
    elif pattern.startswith("^https?"):
        scheme = "http" if _LOOPBACK.match(text) else "https"
        meant = re.sub(r"^(?!https?://)(\w+://)?", f"{scheme}://", text)
        meant = re.sub(r"[?#].*", "", meant)
    elif pattern.startswith("^dataflow"):
        meant = f"dataflow://{re.sub(r'^[a-z]*:/*', '', text)}"
    else:
        return None
    is_better = meant != text and meant.isprintable() and re.search(pattern, meant)
    return meant if is_better else None
