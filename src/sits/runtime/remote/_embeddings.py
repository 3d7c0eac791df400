"""Embeddings of an endpoint: the request's body, and its answer. Pure."""

import array
import base64
import binascii
import sys
from typing import Any

import msgspec

from sits.runtime.remote._errors import EndpointDown
from sits.wire import Embed, Embedded, Usage

# All vectors of an answer go to the gateway in one message.
_ANSWER_BYTES = 8 * 1024 * 1024


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


def read_embeddings(request: Embed, body: bytes) -> Embedded:
    """Return what an endpoint has answered.

    Raises:
        EndpointDown: it is no answer to this request.
    """
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        items = sorted(answer.data, key=lambda item: item.index)
        vectors = tuple(_bytes_of(item.embedding) for item in items)
    except (msgspec.MsgspecError, binascii.Error, OverflowError, RecursionError) as error:
        raise EndpointDown("it answered with what are no embeddings") from error
    if [item.index for item in items] != list(range(len(request.inputs))):
        raise EndpointDown(
            f"it answered {len(request.inputs)} inputs with {len(items)} vectors, or numbered "
            "them otherwise"
        )
    if sum(map(len, vectors)) > _ANSWER_BYTES:
        raise EndpointDown(
            f"its vectors are over {_ANSWER_BYTES} bytes together; send fewer inputs at once"
        )
    return Embedded(request.request_id, vectors, Usage(max(0, answer.usage.prompt_tokens), 0))


def _bytes_of(embedding: list[float] | str) -> bytes:
    """Return a vector as (dimensions,) float32, little-endian."""
    if isinstance(embedding, str):
        return base64.b64decode(embedding, validate=True)
    values = array.array("f", embedding)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
