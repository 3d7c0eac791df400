"""Embeddings of an endpoint: the request's body, and its answer. Pure."""

import array
import base64
import math
import sys
from typing import Any

import msgspec

from sits.runtime.remote._errors import CallerFault, EndpointDown
from sits.wire import MAX_FRAME_BYTES, Embed, Embedded, Usage

_FLOAT_BYTES = 4
# All vectors of an answer go to the gateway in one frame of at most `MAX_FRAME_BYTES`.
_ANSWER_BYTES = MAX_FRAME_BYTES - 1024 * 1024
_VECTOR_OVERHEAD_BYTES = 5
# Vectors of 8,192 numbers fit, at 30 characters each; what is longer is no model's.
_BODY_BYTES_AN_INPUT = 256 * 1024
_BODY_BYTES = 1024 * 1024
_MAX_BODY_BYTES = 64 * 1024 * 1024


class _Item(msgspec.Struct):
    index: int
    embedding: list[float] | str


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


class _Answer(msgspec.Struct):
    data: list[_Item]
    usage: _Usage = msgspec.field(default_factory=_Usage)


def embeddings_body(request: Embed, model: str) -> dict[str, Any]:
    """Return the body that asks an endpoint for vectors."""
    body: dict[str, Any] = {
        "model": model,
        "input": list(request.inputs),
        "encoding_format": "float",
    }
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    return body


def body_limit_bytes(request: Embed) -> int:
    """Return how long the body of the answer may be."""
    return min(_MAX_BODY_BYTES, _BODY_BYTES + _BODY_BYTES_AN_INPUT * len(request.inputs))


def too_long(request: Embed) -> EndpointDown | CallerFault:
    """Return whose fault a body over that limit is, and why."""
    limit, count = body_limit_bytes(request), len(request.inputs)
    if limit < _MAX_BODY_BYTES:
        return EndpointDown(f"it answered {count} inputs with more than {limit} bytes")
    return CallerFault(
        "invalid_prompt",
        f"the answer to {count} inputs is over {limit} bytes; send them in several requests",
    )


def read_embeddings(request: Embed, body: bytes) -> Embedded:
    """Return what an endpoint has answered.

    Raises:
        EndpointDown: it is no answer to this request.
        CallerFault: the vectors are too many at once, or have other dimensions than asked for.
    """
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        items = sorted(answer.data, key=lambda item: item.index)
        vectors = tuple(_bytes_of(item.embedding) for item in items)
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError) as error:
        raise EndpointDown("it answered with what are no embeddings") from error
    if [item.index for item in items] != list(range(len(request.inputs))):
        raise EndpointDown(
            f"it answered {len(request.inputs)} inputs with {len(items)} vectors, or numbered "
            "them otherwise"
        )
    sizes = set(map(len, vectors))
    if len(sizes) > 1:
        raise EndpointDown("it answered with vectors of different lengths")
    for size in sizes:
        _check_size(request, size)
    told = answer.usage.prompt_tokens
    return Embedded(request.request_id, vectors, Usage(told if 0 <= told < 2**53 else 0, 0))


def _check_size(request: Embed, size: int) -> None:
    """Raise `CallerFault` for vectors of so many bytes that the request has itself to blame for.

    None of it counts against the endpoint: one caller could have it left out for all others.
    """
    dimensions, count = size // _FLOAT_BYTES, len(request.inputs)
    if request.dimensions not in (None, dimensions):
        raise CallerFault(
            "unsupported_dimensions",
            f"'dimensions' is {request.dimensions}, and the endpoint's vectors have {dimensions} "
            "whatever is asked for; leave it out",
        )
    most = _ANSWER_BYTES // (size + _VECTOR_OVERHEAD_BYTES)
    if count > most:
        raise CallerFault(
            "invalid_prompt",
            f"there are {count} inputs; with vectors of {dimensions} dimensions at most {most} "
            "are taken at once: send them in several requests",
        )


def _bytes_of(embedding: list[float] | str) -> bytes:
    """Return a vector as (dimensions,) float32, little-endian.

    Raises:
        ValueError: it is none, or has what is no finite number.
    """
    if isinstance(embedding, str):
        values = array.array("f", base64.b64decode(embedding, validate=True))
        if sys.byteorder == "big":
            values.byteswap()
    else:
        values = array.array("f", embedding)
    # No sum of finite float32 leaves a double's range, and no other has a finite one.
    if not values or not math.isfinite(sum(values)):
        raise ValueError("no vector of finite numbers")
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
