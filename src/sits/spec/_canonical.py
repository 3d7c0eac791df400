"""The one form of a unit as bytes, and the name that follows from it.

Two files that mean the same have the same canonical JSON, and so the same revision. Defaults
are spelled out, so that a stored unit keeps its meaning when a default changes later.
"""

import hashlib
import json

import pydantic

from sits.spec._errors import SpecError
from sits.spec._unit import Unit
from sits.spec._yaml import dotted

REVISION_CHARS = 12


def canonical_json(unit: Unit) -> str:
    """Return a unit as JSON: keys sorted, no spaces, nothing that is not set."""
    values = unit.model_dump(mode="json", exclude_none=True)
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def unit_from_json(text: str) -> Unit:
    """Return the unit that `canonical_json` wrote.

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


def revision_id(unit: Unit) -> str:
    """Return a unit's revision: 12 hex digits of the SHA-256 of its canonical JSON."""
    return hashlib.sha256(canonical_json(unit).encode()).hexdigest()[:REVISION_CHARS]
