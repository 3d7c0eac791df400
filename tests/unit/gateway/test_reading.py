"""What a request may say: good values pass, everything else is refused by name."""

from typing import Any

import pytest

from sits.gateway._body import check_plain, decode_object
from sits.gateway._chat import read_chat
from sits.gateway._errors import ApiError
from sits.gateway._query import read_query
from sits.wire import Sampling, TemplatePrompt
from tests.unit.gateway.support import make_route

USER = [{"role": "user", "content": "Hi"}]


def chat(**fields: Any) -> Any:
    body = {"model": "chat", "messages": USER, **fields}
    return read_chat(body, lambda _: make_route(), max_messages=2048)


def refused(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        chat(**fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"model": None}, "model", "missing"),
        ({"model": 3}, "model", "is 3; expected a string"),
        ({"messages": None}, "messages", "missing"),
        ({"messages": []}, "messages", "an array of length 0"),
        ({"messages": "Hi"}, "messages", "'Hi'; expected an array"),
        ({"messages": [3]}, "messages[0]", "is 3; expected an object"),
        ({"messages": [{}]}, "messages[0].role", "missing"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages[0].role", "'tool'"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content", "is 1"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "length 0"),
        ({"messages": [{"role": "user", "content": [1]}]}, "messages[0].content[0]", "is 1"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
            "'image_url'",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
            "missing",
        ),
        (
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]},
            "messages[0].tool_calls",
            "not supported",
        ),
        (
            {"messages": [{"role": "user", "content": "", "colour": 1}]},
            "messages[0].colour",
            "not known",
        ),
        ({"temperature": -0.1}, "temperature", "is -0.1; expected a number from 0 to 2"),
        ({"temperature": 2.1}, "temperature", "from 0 to 2"),
        ({"temperature": "1"}, "temperature", "'1'"),
        ({"temperature": True}, "temperature", "is true"),
        ({"temperature": 10**400}, "temperature", "an integer"),
        ({"top_p": 0}, "top_p", "above 0, at most 1"),
        ({"top_p": 1.01}, "top_p", "above 0, at most 1"),
        ({"min_p": 2}, "min_p", "from 0 to 1"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_tokens": 1.5}, "max_tokens", "is 1.5"),
        ({"max_tokens": True}, "max_tokens", "is true"),
        ({"max_tokens": 2**31}, "max_tokens", "at least 1"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens", "mean the same"),
        ({"seed": 2**63}, "seed", "64-bit"),
        ({"seed": "7"}, "seed", "'7'"),
        ({"stop": ""}, "stop[0]", "1 to 256 characters"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "at most 4"),
        ({"stop": [1]}, "stop[0]", "is 1"),
        ({"stop": {"a": 1}}, "stop", "an object"),
        ({"stop": "x" * 257}, "stop[0]", "a string of length 257"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"stream_options": {}}, "stream_options", "without 'stream'"),
        ({"stream": True, "stream_options": 1}, "stream_options", "an object"),
        (
            {"stream": True, "stream_options": {"include_usage": 1}},
            "stream_options.include_usage",
            "true or false",
        ),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x", "not known"),
        ({"temprature": 1}, "temprature", "did you mean 'temperature'?"),
        ({"zzz": 1}, "zzz", "leave it out"),
    ],
)
def test_a_value_that_cannot_be_taken_is_named(
    fields: dict[str, Any], param: str, said: str
) -> None:
    error = refused(**fields)
    assert error.param == param
    assert said in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("n", True),
        ("tools", [{"type": "function"}]),
        ("tool_choice", "auto"),
        ("functions", [{}]),
        ("function_call", "auto"),
        ("modalities", ["text", "audio"]),
        ("audio", {}),
        ("prediction", {}),
        ("reasoning_effort", "low"),
        ("store", True),
        ("verbosity", "low"),
        ("web_search_options", {}),
    ],
)
def test_what_is_not_supported_is_refused_by_name(name: str, value: Any) -> None:
    error = refused(**{name: value})
    assert (error.param, error.error_code) == (name, "unsupported_parameter")


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1, "tools": [], "tool_choice": "none", "logprobs": False, "top_logprobs": 0},
        {"response_format": {"type": "text"}, "modalities": ["text"], "logit_bias": {}},
        {"presence_penalty": 0, "frequency_penalty": 0.0, "store": False},
        {"user": "u", "metadata": {"a": 1}, "service_tier": "auto", "safety_identifier": "x"},
        {"n": None, "tools": None, "temperature": None, "stop": None, "stream_options": None},
        {"max_tokens": 5, "max_completion_tokens": 5},
    ],
)
def test_what_changes_nothing_is_taken(fields: dict[str, Any]) -> None:
    assert chat(**fields).sampling == Sampling()


def test_an_unknown_name_of_any_length_is_told_in_few_characters() -> None:
    for fields in ({"n" * 100_000: 1}, {"messages": [{**USER[0], "n" * 100_000: 1}]}):
        error = refused(**fields)
        assert error.error_code == "unknown_parameter"
        assert "nnn" in error.message
        assert len(error.body) < 500


@pytest.mark.parametrize("message", ["x" * 100_000, "\U0001f600" * 100_000])
def test_no_error_is_of_unbounded_size(message: str) -> None:
    error = ApiError(400, "code", message, param=message)
    assert len(error.message) <= 2000
    assert len(error.param or "") <= 80
    assert len(str(error)) <= 2000


def test_more_messages_than_the_limit_are_refused_before_they_are_read() -> None:
    def read(count: int) -> Any:
        body = {"model": "chat", "messages": USER * count}
        return read_chat(body, lambda _: make_route(), max_messages=3)

    assert len(read(3).prompt.messages) == 3
    with pytest.raises(ApiError, match="has 4 messages; at most 3") as caught:
        read(4)
    assert (caught.value.status, caught.value.param) == (400, "messages")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a": "\\ud800"}', "lone surrogate"),
        (b'{"a": "\\ud800", "b": 1}', "lone surrogate"),
        (b'{"a": "\\ud800\\u0041"}', "lone surrogate"),
        (b'{"a": "\\uDC00"}', "lone surrogate"),
        (b'{"a": "\\\\\\ud800"}', "lone surrogate"),
        (b'{"a": "\\\\ud800 ', "truncated"),
        (b'{"a": "\\ud83d\\ude00', "truncated"),
        (b'{"a": 1', "truncated"),
        (b'{"a": "\xff"}', "not valid UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not valid UTF-8"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(body: bytes, said: str) -> None:
    with pytest.raises(ApiError, match=said) as caught:
        decode_object(body)
    assert (caught.value.status, caught.value.error_code) == (400, "invalid_json")


def test_the_depth_that_a_message_names_is_taken() -> None:
    deep = b'{"a":' + b"[" * 63 + b"]" * 63 + b"}"
    assert decode_object(deep)
    with pytest.raises(ApiError, match="64 levels are always taken"):
        decode_object(b'{"a":' + b"[" * 100_000)


def test_edges_of_ranges_are_taken() -> None:
    job = chat(temperature=2, top_p=1, min_p=1, seed=-(2**63), stop="x" * 256, max_tokens=1)
    assert job.sampling == Sampling(2.0, 1.0, 1.0, -(2**63))
    assert (job.stop, job.max_tokens) == (("x" * 256,), 1)


def test_a_query_carries_the_units_template_and_the_inputs() -> None:
    unit = make_route(system="Be kind.")
    inputs = {"question": "?", "deep": [{"a": [1, None, True, 1.5]}]}
    job = read_query({"inputs": inputs, "max_tokens": 3, "stop": "x", "stream": True}, unit)
    assert job.prompt == TemplatePrompt("Q: {{ question }}", inputs, "Be kind.")
    assert (job.max_tokens, job.stop, job.stream) == (3, ("x",), True)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "inputs"),
        ({"inputs": []}, "inputs"),
        ({"inputs": "text"}, "inputs"),
        ({"inputs": {}, "messages": []}, "messages"),
        ({"inputs": {}, "temperature": 3}, "temperature"),
        ({"inputs": {"a": 2**63}}, "inputs"),
        ({"inputs": {"a": [[-(2**63) - 1]]}}, "inputs"),
    ],
)
def test_a_query_that_cannot_be_taken_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_query(body, make_route())
    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_unit_without_a_template_says_what_to_call_instead() -> None:
    with pytest.raises(ApiError, match="/v1/chat/completions"):
        read_query({"inputs": {}}, make_route(template=None))


def test_deep_inputs_are_refused_at_a_depth_that_the_worker_can_take() -> None:
    value: Any = 1
    for _ in range(63):
        value = [value]
    check_plain(value, "inputs")
    with pytest.raises(ApiError, match="deeper"):
        check_plain([value], "inputs")
