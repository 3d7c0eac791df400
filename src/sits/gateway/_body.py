"""A request's body: read within bounds, then decoded to plain values.

Invariants: whatever bytes come, the result is an object of plain values or a 4xx. Everything
in it can be sent on over `wire`: no number beyond 64 bits, no deep nesting, no lone surrogate.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import msgspec

from sits.gateway._errors import ApiError, invalid

_MAX_DEPTH = 64
# How deep the decoder itself goes depends on the stack under it: no number of ours.
_TOO_DEEP = (
    f"the request's body is nested too deeply to be read; {_MAX_DEPTH} levels are always taken"
)
_NOT_UTF8 = "the request's body is not valid UTF-8; encode its text in UTF-8"
_LONE = (
    "the request's body holds a lone surrogate, half of a character in an escape from \\ud800 to "
    "\\udfff, which is no valid Unicode text; send the whole character"
)
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1

# The first half of a surrogate pair without the second, escaped: valid JSON, but no text.
_LONE_SURROGATE = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])", re.DOTALL)

_decode = msgspec.json.Decoder().decode


class ClientGoneError(Exception):
    """The client left: there is nobody to answer."""


async def read_body(
    headers: list[tuple[bytes, bytes]],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    *,
    max_bytes: int,
    within_s: float,
) -> bytes:
    """Read a request's whole body.

    Raises:
        ApiError: it is longer than `max_bytes` (413) or took longer than `within_s` (408).
        ClientGoneError: the client left.
    """
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > max_bytes:
            raise _too_long(max_bytes)
    parts: list[bytes] = []
    length = 0
    try:
        with anyio.fail_after(within_s):
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise ClientGoneError
                part = event.get("body", b"")
                length += len(part)
                if length > max_bytes:
                    raise _too_long(max_bytes)
                parts.append(part)
                if not event.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise ApiError(
            408, "body_timeout", f"the request's body was not there after {within_s:g} s"
        ) from None


def decode_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object.

    Raises:
        ApiError: it is not JSON, not an object, or has values that cannot be passed on.
    """
    if not body:
        raise invalid(None, "the request has no body; expected a JSON object", "invalid_json")
    try:
        value = _decode(body)
    except msgspec.MsgspecError as error:
        raise invalid(None, _say_malformed(body, str(error)), "invalid_json") from None
    except UnicodeError:
        raise invalid(None, _NOT_UTF8, "invalid_json") from None
    except RecursionError:
        raise invalid(None, _TOO_DEEP, "invalid_json") from None
    if not isinstance(value, dict):
        raise invalid(
            None,
            f"the request's body is {kind_of(value)}; expected a JSON object",
            "invalid_json",
        )
    return value


def check_plain(value: object, param: str, max_depth: int = _MAX_DEPTH) -> None:
    """Check values that are passed on as they are.

    Raises:
        ApiError: they are nested deeper than `max_depth` levels, or hold a number beyond 64 bits.
    """
    level: list[object] = [value]
    for _ in range(max_depth):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(each.values())
            elif isinstance(each, list):
                below.extend(each)
            elif isinstance(each, int) and not _MIN_INT <= each <= _MAX_INT:
                raise invalid(param, f"{param!r} holds a number beyond 64 bits; give it as text")
        if not below:
            return
        level = below
    raise invalid(
        param,
        f"{param!r} is nested deeper than {max_depth} levels; make it flatter",
        "invalid_json",
    )


def kind_of(value: object) -> str:
    """Return what JSON calls a value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def _too_long(max_bytes: int) -> ApiError:
    return ApiError(
        413,
        "request_too_large",
        f"the request's body is longer than {max_bytes} bytes, which is the limit here",
        headers=[(b"connection", b"close")],
    )


def _say_malformed(body: bytes, reason: str) -> str:
    # The decoder says of half a pair at the end of a text that the body is cut off.
    if "surrogate" in reason or ("truncated" in reason and _LONE_SURROGATE.search(body)):
        return _LONE
    if "UTF-8" in reason:
        return _NOT_UTF8
    return f"the request's body is not valid JSON: {reason}"
