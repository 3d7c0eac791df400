"""Events of an endpoint's stream, and what they say of the answer."""

import json
from typing import Any

import pytest

from sits.runtime.remote._chat import ChatAnswer, chat_body
from sits.runtime.remote._errors import CallerFault, EndpointDown
from sits.runtime.remote._sse import MAX_EVENT_BYTES, EventReader
from sits.wire import ChatPrompt, FinishReason, Generate, Message, Sampling, Usage

SAID = (Message("system", "Be brief."), Message("user", "Hello"))


def delta(content: Any = None, reason: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": reason}
    return json.dumps({"choices": [choice], **more})


def take(*events: str) -> tuple[str, ChatAnswer]:
    answer = ChatAnswer(SAID)
    return "".join(map(answer.take, events)), answer


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b": a comment\n\ndata: a\n\n", ["a"]),
        (b"event: message\nid: 7\nretry: 10\ndata: a\n\n", ["a"]),
        (b"data: one\ndata: two\n\n", ["one\ntwo"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data\n\n", [""]),
        (b"data: never ended\n", []),
        (b"\n\n\n", []),
        ("data: Grüße 😀\n\n".encode(), ["Grüße 😀"]),
    ],
)
def test_events_are_those_of_the_standard(stream: bytes, events: list[str]) -> None:
    assert EventReader().feed(stream) == events
    reader = EventReader()
    assert [e for byte in stream for e in reader.feed(bytes([byte]))] == events


@pytest.mark.parametrize("piece", [b"x" * 1000, b"data: " + b"x" * 1000 + b"\n"])
def test_an_event_that_does_not_end_is_not_kept_for_ever(piece: bytes) -> None:
    reader = EventReader()

    def feed_all() -> None:
        for _ in range(MAX_EVENT_BYTES // 1000 + 2):
            reader.feed(piece)

    with pytest.raises(EndpointDown, match="more than"):
        feed_all()


def test_bytes_that_are_no_text_are_a_fault_of_the_endpoint() -> None:
    with pytest.raises(EndpointDown, match="UTF-8"):
        EventReader().feed(b"data: \xff\xfe\n\n")


def test_an_answer_is_its_deltas_until_it_is_done() -> None:
    text, answer = take(delta(""), delta("Hel"), delta("lo"), delta(None, "stop"), "[DONE]")
    assert (text, answer.done, answer.reason) == ("Hello", True, FinishReason.STOP)


def test_the_reason_and_the_usage_are_the_endpoints() -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    _, answer = take(
        delta("a", usage=None),
        delta(None, "length"),
        json.dumps({"choices": [], "usage": usage}),
        "[DONE]",
    )
    assert answer.reason is FinishReason.LENGTH
    assert answer.usage() == Usage(12, 3)


def test_where_an_endpoint_counts_nothing_its_pieces_are_counted() -> None:
    _, answer = take(delta("a"), delta("b"), delta(None, "stop"), "[DONE]")
    # 14 bytes of words at 4 bytes a token, up to the next whole one.
    assert answer.usage() == Usage(4, 2)


def test_characters_that_escapes_cut_in_half_come_whole() -> None:
    halves = [
        '{"choices":[{"delta":{"content":"a\\ud83d"}}]}',
        '{"choices":[{"delta":{"content":"\\ude00b"}}]}',
    ]
    assert take(*halves)[0] == "a😀b"


def test_half_a_character_without_the_other_is_no_text_and_harms_nothing() -> None:
    lone = '{"choices":[{"delta":{"content":"a\\ud83d"}}]}'
    text, _ = take(lone, "[DONE]")
    assert text == "a\ufffd"
    assert take('{"choices":[{"delta":{"content":"\\ude00!"}}]}')[0] == "\ufffd!"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("nonsense", "not JSON"),
        ("[1]", "no JSON object"),
        ("[" * 100_000, "not JSON"),
        ('{"error": {"message": "it burns", "type": "server_error"}}', "it burns"),
        ('{"error": "it burns"}', "it burns"),
    ],
)
def test_what_is_no_event_of_an_answer_is_a_fault_of_the_endpoint(event: str, said: str) -> None:
    with pytest.raises(EndpointDown, match=said):
        take(event)


@pytest.mark.parametrize(
    "event",
    [
        "{}",
        '{"choices": null}',
        '{"choices": [3]}',
        '{"choices": [{"delta": null}]}',
        '{"choices": [{"delta": {"content": 3}}]}',
        '{"choices": [{"delta": {"role": "assistant"}}], "usage": {"prompt_tokens": "x"}}',
    ],
)
def test_what_says_nothing_adds_nothing(event: str) -> None:
    assert take(event)[0] == ""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"message": "too long", "code": "context_length_exceeded"}, "context_length_exceeded"),
        ({"message": "bad", "type": "invalid_request_error"}, "invalid_request"),
    ],
)
def test_an_error_of_the_callers_is_told_to_the_caller(error: Any, reason: str) -> None:
    with pytest.raises(CallerFault) as caught:
        take(json.dumps({"error": error}))
    assert caught.value.reason == reason


def test_a_withheld_answer_is_no_whole_one() -> None:
    with pytest.raises(CallerFault) as caught:
        take(delta("a"), delta(None, "content_filter"), "[DONE]")
    assert caught.value.reason == "content_filtered"


def test_a_body_has_what_was_asked_under_openais_names() -> None:
    sampling = Sampling(temperature=0.5, top_p=0.9, min_p=0.1, seed=7)
    request = Generate("r", ChatPrompt(SAID), sampling, stop=("END",), max_tokens=9)
    assert chat_body(request, SAID, "there") == {
        "model": "there",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
        "max_tokens": 9,
    }


def test_what_was_not_asked_is_not_in_it() -> None:
    body = chat_body(Generate("r", ChatPrompt(SAID)), SAID, "there")
    assert body.keys().isdisjoint({"seed", "stop", "max_tokens", "min_p"})
