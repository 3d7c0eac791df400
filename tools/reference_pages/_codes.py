"""The codes that callers of units are answered with, read from the places that make them.

A code is a literal where an error is made: `ApiError(404, "model_not_found", …)` in the gateway,
`Failed(…, "overloaded", …)` behind it. What is handed on there (`error.code`) was made elsewhere,
as a literal or as the code of an error's class.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from sits.gateway._errors import _STATUS_OF_FAILURE

SOURCE = Path(__file__).resolve().parents[2] / "src" / "sits"

# Which argument of a call is the code, and what a call without it means.
_PLACE: Mapping[str, int] = {
    "ApiError": 1,
    "invalid": 2,
    "Failed": 1,
    "CallerFault": 0,
    "RequestRefused": 0,
}
_UNSAID: Mapping[str, str] = {"invalid": "invalid_value"}
_OF_GATEWAY = frozenset({"ApiError", "invalid"})
_HANDED_ON = frozenset({"code", "reason"})


def find_codes(source: Path = SOURCE) -> dict[str, frozenset[int]]:
    """Return each code with its HTTP statuses.

    Raises:
        ValueError: a code is neither a literal nor handed on.
    """
    found: dict[str, set[int]] = defaultdict(set)
    for code, status in _STATUS_OF_FAILURE.items():
        found[code].add(status)
    for path in sorted(source.rglob("*.py")):
        in_gateway = path.parent.name == "gateway"
        for name, call in _calls(ast.parse(path.read_text(encoding="utf-8"))):
            if name in _OF_GATEWAY and not in_gateway:  # another package's function of that name
                continue
            for code in _codes_of(name, call, path):
                found[code] |= _statuses(name, call, code)
    return {code: frozenset(statuses) for code, statuses in sorted(found.items())}


def _calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in _PLACE:
                yield name, node


def _codes_of(name: str, call: ast.Call, path: Path) -> list[str]:
    """Return the codes that one call may make."""
    named = [word.value for word in call.keywords if word.arg in _HANDED_ON]
    given = named or call.args[_PLACE[name] : _PLACE[name] + 1]
    if not given:
        return [_UNSAID[name]]
    branches = [given[0].body, given[0].orelse] if isinstance(given[0], ast.IfExp) else given
    literals = [str(part.value) for part in branches if isinstance(part, ast.Constant)]
    handed_on = getattr(given[0], "id", getattr(given[0], "attr", "")) in _HANDED_ON
    if not literals and not handed_on:
        raise ValueError(
            f"{path.name}:{call.lineno}: the code of {name}(…) is {ast.unparse(given[0])}; "
            "expected a literal, so that the reference can tell it"
        )
    return literals


def _statuses(name: str, call: ast.Call, code: str) -> set[int]:
    if name == "invalid":
        return {400}
    if name != "ApiError":
        return {_STATUS_OF_FAILURE.get(code, 500)}
    status = call.args[0]
    # `not_found` hands on Starlette's status, which is that.
    return {int(str(status.value)) if isinstance(status, ast.Constant) else 404}
