"""What people are told about a value that a field cannot have.

pydantic finds what is wrong; here it is put into words, with the line of the file, what was
given, what was expected, and the nearest spelling that would have been right. What goes wrong is
said once, for the first field that is wrong in the order of the file.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import pydantic

from sits.spec._cluster import METADATA, Form
from sits.spec._errors import SpecError
from sits.spec._fields import DNS_LABEL
from sits.spec._unit import SECTIONS, expected_at, field_names
from sits.spec._words import dotted, given, nearest
from sits.spec._yaml import Document, Path

# What other platforms call it, without case and separators, and what it is here.
_ELSEWHERE: Mapping[str, str] = {
    "minreplicas": "scale.min_instances",
    "maxreplicas": "scale.max_instances",
    "minreplicacount": "scale.min_instances",
    "maxreplicacount": "scale.max_instances",
    "minscale": "scale.min_instances",
    "maxscale": "scale.max_instances",
    "replicas": "scale.min_instances",
    "cooldownperiod": "scale.idle",
    "scaledownwindow": "scale.idle",
    "keepalive": "scale.idle",
    "namespace": "tenant",
    "project": "tenant",
    "adapters": "lora",
    "loramodules": "lora",
    "gpus": "hardware.count",
    "numgpu": "hardware.count",
    "numthread": "hardware.threads",
    "resources": "hardware",
    "url": "engine.endpoints",
    "baseurl": "engine.endpoints",
    "apikey": "engine.endpoints",
    "slos": "slo",
    "objectives": "slo",
    "budgets": "budget",
    "template": "prompt.template",
    "system": "prompt.system",
    "systemprompt": "prompt.system",
    "annotations": "labels",
    "from": "model",
}
_LIKE_WHOLE = re.compile(r"\+?\s*0*(\d[\d_, ]{0,17})(\.0*)?\s*", re.ASCII)


def first_error(
    error: pydantic.ValidationError, document: Document, form: Form, source: str
) -> SpecError:
    """Return the first thing that is wrong, in the order of the file."""
    end_of_file = 1 << 30
    first = min(
        error.errors(include_url=False),
        # A misspelled name shows as an unknown field and a missing one: the former says more.
        key=lambda item: (
            item["type"] == "missing",
            document.line_of(form.in_file(item["loc"])) or end_of_file,
        ),
    )
    path = _in_document(form.in_file(first["loc"]), document.value)
    return SpecError(
        _problem(first, document, form),
        source=source,
        line=document.line_of(path),
        field=dotted(path),
    )


def _in_document(path: Path, value: Any) -> Path:
    """Return a path as the file has it: of a short form, only what is written there."""
    there: Path = ()
    for part in path:
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


def _problem(item: Any, document: Document, form: Form) -> str:
    path = item["loc"]
    match item["type"]:
        case "extra_forbidden":
            names = field_names(path[:-1])
            if form.is_cluster and len(path) == 1:
                names = tuple(name for name in names if name not in METADATA)
            hint = _field_hint(path)
            return f"is not a known field; {hint}expected one of: {', '.join(names)}"
        case "missing":
            return f"is missing; expected {expected_at(path)}"
        case "too_long" if "actual_length" in item["ctx"]:
            return f"has too many items; expected at most {item['ctx']['max_length']}"
        case "value_error":
            return str(item["ctx"]["error"])
        case _:
            problem = f"is {given(item['input'])}; expected {expected_at(path) or item['msg']}"
            return problem + _value_hint(item, document.written.get(form.in_file(path)))


def _field_hint(path: Path) -> str:
    """Say where a field belongs, or which one was meant."""
    name, inside = str(path[-1]), [str(part) for part in path[:-1] if isinstance(part, str)]
    homes = [home for home in SECTIONS if name in SECTIONS[home].model_fields]
    if inside and name in field_names(()):
        return "it belongs at the top, without indentation; "
    if homes:
        return f"it belongs under `{homes[0]}`; "
    known = _ELSEWHERE.get(re.sub(r"[-_.]", "", name[:64]).casefold())
    if known:
        return f"it is called `{known}` here; "
    near = nearest(name, field_names(path[:-1]))
    if near:
        return f"did you mean `{near}`? "
    everywhere = {
        field: f"{home}.{field}" for home in SECTIONS for field in SECTIONS[home].model_fields
    } | {field: field for field in field_names(())}
    elsewhere = nearest(name, everywhere)
    return f"did you mean `{everywhere[elsewhere]}`? " if elsewhere else ""


def _value_hint(item: Any, written: str | None) -> str:
    value, kind, context = item["input"], item["type"], item.get("ctx", {})
    if kind == "string_type":
        return f'. Write "{written}" in quotes if text is meant' if written else ""
    if kind == "int_type":
        found = _LIKE_WHOLE.fullmatch(str(value)) if isinstance(value, str | float) else None
        return f": write {re.sub('[_, ]', '', found[1])}" if found else ""
    if kind == "enum":
        known = re.findall(r"'([^']*)'", context["expected"])
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
        meant = re.sub(r"^(?!https?://)(\w+://)?", "https://", text)
        meant = re.sub(r"[?#].*", "", meant)
    elif pattern.startswith("^dataflow"):
        meant = f"dataflow://{re.sub(r'^[a-z]*:/*', '', text)}"
    else:
        return None
    is_better = meant != text and meant.isprintable() and re.search(pattern, meant)
    return meant if is_better else None
