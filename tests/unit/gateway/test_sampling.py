"""What a request may say of how its answer is drawn, told of and held to a form."""

import json
from typing import Any

import pytest

from sits.gateway._chat import read_chat
from sits.gateway._errors import ApiError
from sits.gateway._query import read_query
from sits.wire import Sampling
from tests.unit.gateway.support import make_route

USER = [{"role": "user", "content": "Hi"}]
SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "answer": {"type": "integer"}},
    "required": ["reason", "answer"],
    "additionalProperties": False,
}
INNER = "response_format.json_schema"
# As `json` writes it without spaces, in the order that was given: answers keep it.
COMPACT = json.dumps(SCHEMA, separators=(",", ":"))


def chat(**fields: Any) -> Sampling:
    body = {"model": "chat", "messages": USER, **fields}
    sampling = read_chat(body, lambda _: make_route(), max_messages=8, max_biases=3).sampling
    assert isinstance(sampling, Sampling)
    return sampling


def query(**fields: Any) -> Sampling:
    return read_query({"inputs": {}, **fields}, make_route(), max_biases=3).sampling


def json_schema(**changes: Any) -> dict[str, Any]:
    inner = {"name": "answer", "schema": SCHEMA, "strict": True, **changes}
    return {"type": "json_schema", "json_schema": inner}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth - 1):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize("read", [chat, query])
def test_penalties_and_biases_reach_the_worker(read: Any) -> None:
    sampling = read(
        presence_penalty=-2, frequency_penalty=1.5, logit_bias={"0": 100, "464": -100, "7": None}
    )
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (-2.0, 1.5)
    assert sampling.logit_bias == ((0, 100.0), (464, -100.0))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": None}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_how_many_alternatives_are_told(fields: dict[str, Any], expected: int | None) -> None:
    assert chat(**fields).top_logprobs == expected


@pytest.mark.parametrize("read", [chat, query])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, '{"type":"object"}'),
        (json_schema(), json.dumps(SCHEMA, separators=(",", ":"))),
        (
            json_schema(strict=None, description="what it is for"),
            json.dumps(SCHEMA).replace(" ", ""),
        ),
        (json_schema(schema={}), "{}"),
    ],
)
def test_a_form_becomes_a_schema(read: Any, given: Any, expected: str | None) -> None:
    assert read(response_format=given).json_schema == expected


def test_the_largest_and_the_deepest_schema_are_taken() -> None:
    assert chat(response_format=json_schema(schema=nested(32))).json_schema
    padding = 64 * 1024 - len('{"title":""}')
    largest = chat(response_format=json_schema(schema={"title": "x" * padding})).json_schema
    assert largest is not None
    assert len(largest) == 64 * 1024
    with pytest.raises(ApiError, match="is of 65537 bytes as JSON; at most 65536"):
        chat(response_format=json_schema(schema={"title": "x" * (padding + 1)}))


@pytest.mark.parametrize("read", [chat, query])
@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"presence_penalty": 2.1}, "presence_penalty", "is 2.1; expected a number from -2 to 2"),
        ({"frequency_penalty": "1"}, "frequency_penalty", "'1'"),
        ({"frequency_penalty": True}, "frequency_penalty", "is true"),
        ({"logit_bias": [1]}, "logit_bias", "an array of length 1; expected an object"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1", "is 101; expected a number from -100 to 100"),
        ({"logit_bias": {"1": "x"}}, "logit_bias.1", "'x'"),
        ({"logit_bias": {"the": 1}}, "logit_bias.the", "expected a token's id"),
        ({"logit_bias": {"-1": 1}}, "logit_bias.-1", "expected a token's id"),
        ({"logit_bias": {"01": 1}}, "logit_bias.01", "expected a token's id"),
        ({"logit_bias": {"٣": 1}}, "logit_bias.٣", "expected a token's id"),
        ({"logit_bias": {str(2**31): 1}}, f"logit_bias.{2**31}", "expected a token's id"),
        ({"logit_bias": {"9" * 5000: 1}}, None, "expected a token's id"),
        ({"logit_bias": {"1": 1, "2": 1, "3": 1, "4": 1}}, "logit_bias", "4 tokens; at most 3"),
        ({"response_format": "json"}, "response_format", "'json'; expected an object"),
        ({"response_format": {}}, "response_format.type", "missing"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing"),
        (
            {"response_format": {"type": "json_schema", "json_schema": 1}},
            "response_format.json_schema",
            "is 1",
        ),
        (
            {"response_format": {"type": "text", "schema": {}}},
            "response_format.schema",
            "not known",
        ),
        ({"response_format": json_schema(name="")}, f"{INNER}.name", "''"),
        ({"response_format": json_schema(name="a b")}, f"{INNER}.name", "a b"),
        (
            {"response_format": json_schema(name=None)},
            f"{INNER}.name",
            "missing",
        ),
        ({"response_format": json_schema(strict=1)}, f"{INNER}.strict", "is 1"),
        (
            {"response_format": json_schema(schema=None)},
            f"{INNER}.schema",
            "missing",
        ),
        (
            {"response_format": json_schema(schema=[])},
            f"{INNER}.schema",
            "expected a JSON Schema",
        ),
        (
            {"response_format": json_schema(schema=nested(33))},
            f"{INNER}.schema",
            "deeper than 32 levels",
        ),
        (
            {"response_format": json_schema(schema=nested(30_000))},
            f"{INNER}.schema",
            "deeper than 32 levels",
        ),
        (
            {"response_format": json_schema(schema={"maximum": 2**63})},
            f"{INNER}.schema",
            "beyond 64 bits",
        ),
    ],
)
def test_a_value_that_cannot_be_taken_is_named(
    read: Any, fields: dict[str, Any], param: str | None, said: str
) -> None:
    with pytest.raises(ApiError) as caught:
        read(**fields)
    error = caught.value
    assert error.status == 400
    assert param is None or error.param == param
    assert said in error.message
    assert len(error.body) < 1000


@pytest.mark.parametrize("kind", ["grammar", "regex", "structural_tag"])
def test_a_form_that_is_not_there_is_refused_by_name(kind: str) -> None:
    with pytest.raises(ApiError, match=f"{kind}.*not supported here.*json_schema") as caught:
        chat(response_format={"type": kind})
    assert caught.value.error_code == "unsupported_parameter"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"logprobs": False, "top_logprobs": 1}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"logprobs": 1}, "logprobs"),
        ({"logprobs": 5}, "logprobs"),
    ],
)
def test_logprobs_that_cannot_be_told_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        chat(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_query_has_no_place_for_logprobs() -> None:
    with pytest.raises(ApiError, match="'logprobs' is not known"):
        query(logprobs=True)
