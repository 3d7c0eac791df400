"""The control API, from the OpenAPI document that it serves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from reference_pages._markdown import MARK, make_table
from sits.control._api import make_app

_HEAD = f"""# The control API

{MARK}

Under `/api/v1`, on the same address and with the same key as all the rest. It is described by
`GET /api/v1/openapi.json`. `POST` and `DELETE` are answered when they are in force at every
gateway (or after a second). Errors have OpenAI's form; [their codes](errors.md).
"""


def make_routes_page() -> str:
    """Return the whole document."""
    rows = [(f"`{method} {path}`", meaning) for method, path, meaning, _ in _operations()]
    sections = (
        f"\n## `{method} {path}`\n{given}"
        for method, path, _, operation in _operations()
        if (given := _given(operation))
    )
    return _HEAD + make_table(("route", "meaning"), rows) + "".join(sections)


def make_openapi() -> dict[str, Any]:
    """Return the document as a running platform serves it."""
    # Making it asks none of what the routes work with.
    nothing = cast(Any, None)
    return make_app(nothing, nothing, nothing, log_dir=Path()).openapi()


def _operations() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    for path, operations in make_openapi()["paths"].items():
        for method, operation in operations.items():
            meaning = " ".join(operation["description"].split())
            yield method.upper(), path, meaning, operation


def _given(operation: dict[str, Any]) -> str:
    text = ""
    if body := operation.get("requestBody"):
        text += f"\nBody: a unit, as {' or '.join(f'`{kind}`' for kind in body['content'])}.\n"
    # What stands in the path is named by the route.
    if query := [each for each in operation.get("parameters", ()) if each["in"] == "query"]:
        text += make_table(("query", "type", "default", ""), map(_parameter, query))
    return text


def _parameter(parameter: dict[str, Any]) -> tuple[str, ...]:
    schema = parameter["schema"]
    plain = next((each for each in schema.get("anyOf", ()) if each["type"] != "null"), schema)
    default = schema.get("default", "")
    shown = f"`{str(default).lower()}`" if default != "" else ""
    bounds = [
        f"{words} {plain[key]}"
        for key, words in (("minimum", "at least"), ("maximum", "at most"))
        if key in plain
    ]
    return (
        f"`{parameter['name']}`",
        plain["type"],
        "needed" if parameter["required"] else shown,
        ", ".join(bounds),
    )
