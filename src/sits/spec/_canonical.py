"""The one form of a unit as bytes, and the name that follows from it.

Two files that mean the same have the same canonical JSON, and so the same revision. Defaults
are spelled out, so that a stored unit keeps its meaning when a default changes later; what is
not said at all (an optional field that is not set, an empty list) is left out, so that a field
that a later version adds changes no revision of units that do not use it.
"""

import hashlib
import json
from typing import Any

import pydantic

from sits.spec._errors import SpecError
from sits.spec._unit import Unit
from sits.spec._words import dotted

REVISION_CHARS = 12


def unit_values(unit: Unit) -> dict[str, Any]:
    """Return what a unit says, as JSON's types: the value that `canonical_json` writes."""
    values: dict[str, Any] = _without_nothing(unit.model_dump(mode="json", exclude_none=True))
    return values


def canonical_json(unit: Unit) -> str:
    """Return a unit as JSON: keys sorted, no spaces, nothing that is not set."""
    values = unit_values(unit)
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def unit_from_json(text: str) -> Unit:
    """Return the unit that `canonical_json` wrote, in this version or an older one.

    Raises:
        SpecError: it was written by something else, such as a newer version.
    """
    try:
        return Unit.model_validate(json.loads(text))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SpecError(first["msg"], field=dotted(first["loc"])) from error
    except (ValueError, RecursionError) as error:
        raise SpecError(f"is not usable JSON: {error}") from error


def revision_id(unit: Unit, *digests: str) -> str:
    """Return a unit's revision: 12 hex digits of a SHA-256.

    Args:
        unit: the unit; its canonical JSON is hashed.
        digests: what its references meant when it was deployed, the model's first and then those
            of its adapters, each after a line feed; none for a model that has no file.
    """
    text = "\n".join((canonical_json(unit), *digests))
    return hashlib.sha256(text.encode()).hexdigest()[:REVISION_CHARS]


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        left = {key: _without_nothing(part) for key, part in value.items()}
        return {key: part for key, part in left.items() if part not in ([], {})}
    if isinstance(value, list):
        return [_without_nothing(part) for part in value]
    return value
