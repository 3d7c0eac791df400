"""`POST /v1/embeddings`: reading the request. Pure.

Source: OpenAI's API reference for embeddings. Token ids are those of the unit's own model, and
are taken as they are: who tokenizes adds the model's marks as well.
"""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from sits.gateway._body import kind_of
from sits.gateway._errors import ApiError, invalid
from sits.gateway._fields import Fields
from sits.gateway._job import EmbeddingJob, require_kind
from sits.wire import UnitKind, UnitRoute

_EXPECTED = "a text, an array of texts, an array of token ids, or an array of such arrays"
_MAX_DIMENSIONS = 1 << 20

_Token = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Input = str | tuple[int, ...]


def read_embeddings(
    body: dict[str, Any], find: Callable[[str], UnitRoute], *, max_inputs: int
) -> EmbeddingJob:
    """Read a request for embeddings.

    Args:
        body: the request's object.
        find: returns the route of a unit that the caller may use, by its name.
        max_inputs: most inputs that are taken.

    Raises:
        ApiError: something in it cannot be taken; the message names the field.
    """
    fields = Fields(body)
    unit = find(fields.text("model"))
    require_kind(unit, UnitKind.EMBEDDING)
    inputs = _take_inputs(fields, max_inputs)
    expected = f"an integer from 1 to {_MAX_DIMENSIONS}, of which most models take only their own"
    dimensions = fields.integer("dimensions", expected, 1, _MAX_DIMENSIONS)
    encoding = fields.take("encoding_format")
    if encoding not in (None, "float", "base64"):
        raise fields.wrong("encoding_format", encoding, "'float' or 'base64'")
    fields.take("user")
    fields.finish()
    return EmbeddingJob(unit, inputs, dimensions, as_base64=encoding == "base64")


def _take_inputs(fields: Fields, limit: int) -> tuple[_Input, ...]:
    value = fields.take("input")
    if value is None:
        raise fields.missing("input", _EXPECTED)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise fields.wrong("input", value, _EXPECTED)
    if isinstance(value[0], int):
        value = [value]
    if len(value) > limit:
        raise invalid(
            "input",
            f"'input' has {len(value)} inputs; at most {limit} are taken: send them in several "
            "requests",
        )
    texts = isinstance(value[0], str)
    return tuple(_read_input(fields, index, each, texts) for index, each in enumerate(value))


def _read_input(fields: Fields, index: int, value: object, texts: bool) -> _Input:
    where = f"input[{index}]"
    if texts:
        if not isinstance(value, str):
            raise fields.wrong(where, value, "a text, as the first of them")
        if not value:
            raise fields.wrong(where, value, "a text that is not empty")
        return value
    if not isinstance(value, list) or not value:
        raise fields.wrong(where, value, "an array of at least one token id")
    try:
        return msgspec.convert(value, tuple[_Token, ...])
    except msgspec.ValidationError:
        raise _no_token(where, value) from None


def _no_token(where: str, tokens: list[object]) -> ApiError:
    for index, token in enumerate(tokens):
        # `True` is an `int` to Python, and no number to JSON.
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < 2**31:
            given = str(token) if type(token) is int else kind_of(token)
            path = f"{where}[{index}]"
            return invalid(path, f"{path!r} is {given[:40]}; expected a token id, 0 or more")
    raise AssertionError("what the decoder refuses has a wrong token")
