"""Whatever a client sends, it is read or refused; nothing else happens."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sits.gateway._body import decode_object
from sits.gateway._chat import read_chat
from sits.gateway._embeddings import read_embeddings
from sits.gateway._errors import ApiError
from sits.gateway._job import AnyJob
from sits.gateway._query import read_query
from sits.wire import UnitKind, encode_frame
from tests.unit.gateway.support import make_route

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        "model",
        "messages",
        "inputs",
        "input",
        "dimensions",
        "encoding_format",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "min_p",
        "max_tokens",
        "max_completion_tokens",
        "seed",
        "stop",
        "n",
        "tools",
        "response_format",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "presence_penalty",
        "frequency_penalty",
        "user",
    ]
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]) | VALUES, "content": VALUES})
)
TOKENS = st.lists(st.integers() | st.booleans())
INPUTS = VALUES | st.text() | st.lists(st.text()) | TOKENS | st.lists(TOKENS)
BODIES = st.fixed_dictionaries(
    {"model": st.just("chat")}, optional={"messages": MESSAGES, "inputs": VALUES, "input": INPUTS}
).flatmap(
    lambda body: st.dictionaries(NAMES, VALUES, max_size=4).map(lambda more: {**more, **body})
)


def read(read_job: Callable[[dict[str, Any]], AnyJob], body: bytes) -> AnyJob | ApiError:
    try:
        return read_job(decode_object(body))
    except ApiError as error:
        return error


def check(body: bytes) -> None:
    embedding = make_route(kind=UnitKind.EMBEDDING)
    for result in (
        read(lambda value: read_chat(value, lambda _: make_route(), max_messages=64), body),
        read(lambda value: read_query(value, make_route()), body),
        read(lambda value: read_embeddings(value, lambda _: embedding, max_inputs=64), body),
    ):
        if isinstance(result, ApiError):
            assert 400 <= result.status < 500
            assert msgspec.json.decode(result.body)["error"]["message"]
        else:
            # What was taken can be sent on.
            assert encode_frame(result.order("id"))


@given(st.binary())
def test_any_bytes(body: bytes) -> None:
    check(body)


@given(VALUES)
def test_any_json(value: Any) -> None:
    check(json.dumps(value).encode("utf-8", "surrogatepass"))


@given(BODIES)
def test_any_values_in_known_fields(body: Any) -> None:
    check(json.dumps(body).encode("utf-8", "surrogatepass"))
