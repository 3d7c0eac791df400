"""Reading `response_format`: the JSON Schema to which an answer is held. Pure.

Invariants: size and depth are bounded before anything that recurses sees the schema, here and
behind; its fields keep their order, which is the order in which an answer's fields are made.
Which of a schema's words can be held to is known to whoever makes the grammar, and refused there.
"""

import re

import msgspec

from sits.gateway._body import check_plain
from sits.gateway._errors import ApiError, invalid
from sits.gateway._fields import Fields

ANY_OBJECT = '{"type":"object"}'
"""The schema of OpenAI's `json_object`."""

_MAX_SCHEMA_BYTES = 64 * 1024
_MAX_SCHEMA_DEPTH = 32
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FORMATS = "'text', 'json_object' or 'json_schema'"

_encode = msgspec.json.Encoder().encode


def take_schema(fields: Fields) -> str | None:
    """Read the form of the answer; return its JSON Schema as compact JSON, None for any text."""
    given = fields.take("response_format")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise fields.wrong("response_format", given, "an object with 'type'")
    form = Fields(given, fields.path("response_format"))
    kind = form.text("type")
    if kind not in {"text", "json_object", "json_schema"}:
        raise _unsupported(form, kind)
    schema = _read_schema(form) if kind == "json_schema" else None
    form.finish()
    return ANY_OBJECT if kind == "json_object" else schema


def _read_schema(form: Fields) -> str:
    given = form.take("json_schema")
    expected = "an object with 'name' and 'schema'"
    if given is None:
        raise form.missing("json_schema", expected)
    if not isinstance(given, dict):
        raise form.wrong("json_schema", given, expected)
    inner = Fields(given, form.path("json_schema"))
    name = inner.text("name")
    if not _NAME.fullmatch(name):
        raise inner.wrong("name", name, "1 to 64 letters, digits, '_' and '-'")
    # It says what the schema is for, to nobody here: the model sees the prompt alone.
    inner.take("description")
    # An answer is held to its schema whether or not that is asked for.
    inner.flag("strict")
    schema = inner.take("schema")
    if schema is None:
        raise inner.missing("schema", "a JSON Schema, an object")
    inner.finish()
    return _compact(inner, schema)


def _compact(inner: Fields, schema: object) -> str:
    path = inner.path("schema")
    if not isinstance(schema, dict):
        raise inner.wrong("schema", schema, "a JSON Schema, an object")
    check_plain(schema, path, _MAX_SCHEMA_DEPTH)
    text = _encode(schema)
    if len(text) > _MAX_SCHEMA_BYTES:
        raise invalid(
            path,
            f"{path!r} is of {len(text)} bytes as JSON; at most {_MAX_SCHEMA_BYTES} are taken: "
            "make it smaller",
        )
    return text.decode("utf-8")


def _unsupported(form: Fields, kind: str) -> ApiError:
    path = form.path("type")
    return invalid(
        path,
        f"{path!r} is {kind[:40]!r}, which is not supported here; expected {_FORMATS}",
        "unsupported_parameter",
    )
