"""Vectors in the form of OpenAI's embeddings. Pure.

A large answer is megabytes, whose making would hold up every other request: so it is made in
parts, and who sends them lets others have their turn between two.
"""

import array
import base64
import sys
from collections.abc import Iterator, Sequence

import msgspec

from sits.gateway._event_text import encode_text
from sits.wire import Usage

# About 1 ms of work at 384 dimensions as numbers.
_VECTORS_A_PART = 32

_encode = msgspec.json.Encoder().encode


class EmbeddingUsage(msgspec.Struct, frozen=True):
    """What the vectors took, under OpenAI's names."""

    prompt_tokens: int
    total_tokens: int


def render_embeddings(
    vectors: Sequence[bytes], unit: str, usage: Usage, *, as_base64: bool
) -> Iterator[bytes]:
    """Give the document, part by part.

    Args:
        vectors: (dimensions,) float32, little-endian, in the order of the inputs.
        unit: the unit's name.
        usage: the worker's.
        as_base64: each vector as base64 of its bytes.
    """
    begin = b'{"object":"list","data":['
    for start in range(0, len(vectors), _VECTORS_A_PART):
        group = enumerate(vectors[start : start + _VECTORS_A_PART], start)
        yield begin + b",".join(_item(index, vector, as_base64) for index, vector in group)
        begin = b","
    total = usage.prompt_tokens + usage.completion_tokens
    figures = _encode(EmbeddingUsage(usage.prompt_tokens, total))
    yield b'],"model":' + encode_text(unit) + b',"usage":' + figures + b"}"


def _item(index: int, vector: bytes, as_base64: bool) -> bytes:
    value = b'"' + base64.b64encode(vector) + b'"' if as_base64 else _encode(_floats(vector))
    return b'{"object":"embedding","index":%d,"embedding":' % index + value + b"}"


def _floats(vector: bytes) -> list[float]:
    values = array.array("f", vector)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()
