"""What loads, as JSON Schema 2020-12: for editors, and for whoever checks units elsewhere.

Invariant: what the loader accepts, the schema accepts, in both forms and with every short form.
The other way round it cannot be: the schema knows no sums, no grammar of triggers, and not that
a model fits its engine.
"""

from typing import Any

from sits.spec._cluster import API_VERSION, KIND, METADATA, WRITTEN_BY_CLUSTERS
from sits.spec._unit import Unit

SCHEMA_ID = "https://sits.dev/schema/v1alpha1/intelligence-unit.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# What lost its `@` on the way is read as what it was, with a note.
_LOST_AT = {
    "model": r"^(huggingface://)?([A-Za-z0-9_.-]+/)?[A-Za-z0-9_.-]*[A-Za-z0-9]v\d+(\.\d+)+$",
    "adapter": r"^(dataflow://)?[A-Za-z0-9_.-]*[A-Za-z0-9]-v\d+(\.\d+)*$",
}


def unit_schema() -> dict[str, Any]:
    """Return the JSON Schema of a unit's file, of the plain and of the cluster's form."""
    unit = Unit.model_json_schema(mode="validation")
    definitions: dict[str, Any] = unit.pop("$defs")
    for name, pattern in _LOST_AT.items():
        unit["properties"][name] = _with_lost_at(unit["properties"][name], pattern)
    definitions["Unit"] = unit
    definitions["ClusterUnit"] = _cluster_schema(unit)
    return {
        "$schema": _DIALECT,
        "$id": SCHEMA_ID,
        "title": "SITS Intelligence Unit",
        "description": "A model, what is said to it, how it scales, and what it may use.",
        "type": "object",
        # Not `anyOf`: an editor would tell of both forms what is wrong with one.
        "if": {
            "anyOf": [
                {"required": ["apiVersion"]},
                {"required": ["kind"]},
                {"required": ["metadata", "spec"]},
            ]
        },
        "then": {"$ref": "#/$defs/ClusterUnit"},
        "else": {"$ref": "#/$defs/Unit"},
        "$defs": {name: _without_null_defaults(definitions[name]) for name in sorted(definitions)},
    }


def _with_lost_at(field: dict[str, Any], pattern: str) -> dict[str, Any]:
    said = ("title", "description", "examples", "default")
    form = {key: part for key, part in field.items() if key not in said}
    lost = {"type": "string", "pattern": pattern, "deprecated": True}
    outer: dict[str, Any] = {key: field[key] for key in said if key in field}
    outer["anyOf"] = [*form.get("anyOf", [form]), lost]
    return outer


def _cluster_schema(unit: dict[str, Any]) -> dict[str, Any]:
    fields = unit["properties"]
    metadata: dict[str, Any] = {there: fields[here] for here, there in METADATA.items()}
    return {
        "title": "The same unit as an object of a Kubernetes cluster",
        "type": "object",
        "additionalProperties": False,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "metadata": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {**metadata, **dict.fromkeys(sorted(WRITTEN_BY_CLUSTERS), True)},
            },
            "spec": {
                "type": "object",
                "additionalProperties": False,
                "required": ["model"],
                "properties": {
                    name: field for name, field in fields.items() if name not in METADATA
                },
            },
            "status": {"description": "The cluster's own; left out when the unit is read."},
        },
    }


def _without_null_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_null_defaults(part)
            for key, part in value.items()
            if not (key == "default" and part is None)
        }
    if isinstance(value, list):
        return [_without_null_defaults(part) for part in value]
    return value
