"""Chat completions, in process: the application, one scripted worker behind a real socket."""

from pathlib import Path

import pytest

from sits.wire import ChatPrompt, FinishReason, Message
from tests.unit.gateway.support import OTHER_KEY, Client, Say, hangs, says, serving

pytestmark = pytest.mark.anyio


async def test_an_answer_is_one_document_in_openais_form(tmp_path: Path) -> None:
    async with serving(tmp_path, says("Hel", "lo", "!")) as (it, worker):
        answer = await it.client.chat()
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    body = answer.json
    assert body.pop("id").startswith("chatcmpl-")
    assert body.pop("created") > 1_700_000_000
    assert body == {
        "object": "chat.completion",
        "model": "chat",
        "system_fingerprint": "fp_0a1b2c3d4e5f",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello!", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }
    assert answer.headers["x-sits-revision"] == "0a1b2c3d4e5f"
    assert answer.headers["x-sits-tier"] == "hot"
    assert len(worker.requests) == 1


async def test_a_stream_sends_each_piece_by_itself_then_the_reason_then_done(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, says("Hel", "", "lo")) as (it, _):
        answer = await it.client.chat(stream=True)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    # Two pieces with text, and the end: three sends.
    assert len(answer.parts) == 3
    assert answer.ended
    first, second, last, done = answer.events
    assert first["choices"] == [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": "Hel"},
            "logprobs": None,
            "finish_reason": None,
        }
    ]
    assert second["choices"][0]["delta"] == {"content": "lo"}
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]
    assert done == "[DONE]"
    assert {first["object"], last["object"]} == {"chat.completion.chunk"}
    assert (
        len({(each["id"], each["created"], each["model"]) for each in (first, second, last)}) == 1
    )
    assert "usage" not in first


async def test_usage_comes_in_a_chunk_without_choices_when_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path, says("a")) as (it, _):
        answer = await it.client.chat(stream=True, stream_options={"include_usage": True})
    first, last, usage, done = answer.events
    assert first["usage"] is None
    assert last["usage"] is None
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert done == "[DONE]"


async def test_an_answer_without_pieces_still_has_a_role_and_an_end(tmp_path: Path) -> None:
    async with serving(tmp_path, says()) as (it, _):
        streamed, whole = await it.client.chat(stream=True), await it.client.chat()
    first, last, done = streamed.events
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert (last["choices"][0]["finish_reason"], done) == ("stop", "[DONE]")
    assert whole.json["choices"][0]["message"]["content"] == ""


async def test_an_answer_cut_by_max_tokens_says_length(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("x")
        await say.finish(FinishReason.LENGTH)

    async with serving(tmp_path, script) as (it, worker):
        answer = await it.client.chat(max_completion_tokens=1)
    assert answer.json["choices"][0]["finish_reason"] == "length"
    assert worker.requests[0].max_tokens == 1


async def test_what_was_asked_reaches_the_worker(tmp_path: Path) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "refusal": None, "tool_calls": None},
        {"role": "user", "content": "d", "name": "Ann"},
    ]
    async with serving(tmp_path, says("x"), system="Be kind.") as (it, worker):
        await it.client.chat(
            messages=messages,
            temperature=0,
            top_p=0.5,
            min_p=0.1,
            seed=-3,
            stop=["\n", "END"],
            max_tokens=9,
            user="u",
            metadata={"a": "b"},
            n=1,
            tools=[],
            logprobs=False,
            presence_penalty=0.0,
            response_format={"type": "text"},
            store=False,
        )
    (request,) = worker.requests
    assert request.prompt == ChatPrompt(
        (
            Message("system", "Be kind.\n\nBe brief."),
            Message("user", "ab"),
            Message("assistant", "c"),
            Message("user", "d"),
        )
    )
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.min_p) == (0.0, 0.5, 0.1)
    assert sampling.seed == -3
    assert (request.stop, request.max_tokens) == (("\n", "END"), 9)


async def test_the_units_system_prompt_comes_first_where_the_caller_has_none(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, says("x"), system="Be kind.") as (it, worker):
        await it.client.chat()
    prompt = worker.requests[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.messages == (Message("system", "Be kind."), Message("user", "Hi"))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("context_length_exceeded", 400),
        ("invalid_prompt", 400),
        ("overloaded", 429),
        ("engine_error", 500),
        ("something_new", 500),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_before_the_first_piece_is_an_http_error(
    tmp_path: Path, code: str, status: int, stream: bool
) -> None:
    async def script(say: Say) -> None:
        await say.fail(code)

    async with serving(tmp_path, script) as (it, _):
        answer = await it.client.chat(stream=stream)
        assert it.counts() == {}
    assert answer.status == status
    assert answer.error["code"] == code
    assert answer.error["message"] == "as the script says"
    assert ("retry-after" in answer.headers) == (status == 429)


async def test_a_failure_in_a_stream_is_an_event_and_no_done_follows(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await say.fail("engine_error")

    async with serving(tmp_path, script) as (it, _):
        answer = await it.client.chat(stream=True)
    assert answer.status == 200
    assert answer.ended
    first, error = answer.events
    assert first["choices"][0]["delta"]["content"] == "a"
    assert error == {
        "error": {
            "message": "as the script says",
            "type": "server_error",
            "param": None,
            "code": "engine_error",
        }
    }


async def test_a_lost_piece_is_noticed(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("a")
        say.seq = 2
        await say("c")
        await say.finish()

    async with serving(tmp_path, script) as (it, _worker):
        streamed, whole = await it.client.chat(stream=True), await it.client.chat()
    assert streamed.events[-1]["error"]["code"] == "engine_error"
    assert (whole.status, whole.error["code"]) == (500, "engine_error")


async def test_a_worker_that_says_nothing_is_given_up_in_time(tmp_path: Path) -> None:
    async with serving(tmp_path, hangs, {"first_byte_s": 0.01}) as (it, worker):
        answer = await it.client.chat()
        await worker.until(lambda: len(worker.cancelled) == 1)
        assert it.counts() == {}
    assert (answer.status, answer.error["code"]) == (504, "timeout")


@pytest.mark.parametrize("limit", ["idle_s", "total_s"])
async def test_a_stream_that_stalls_is_ended_with_an_error(tmp_path: Path, limit: str) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await hangs(say)

    async with serving(tmp_path, script, {limit: 0.01}) as (it, worker):
        answer = await it.client.chat(stream=True)
        await worker.until(lambda: len(worker.cancelled) == 1)
    assert answer.events[-1]["error"]["code"] == "timeout"


async def test_a_request_id_goes_through_and_the_worker_never_sees_it_twice(
    tmp_path: Path,
) -> None:
    headers = {"x-request-id": "my-id.1"}
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}
    async with serving(tmp_path, says("x")) as (it, worker):
        answers = [
            await it.client("POST", "/v1/chat/completions", body, headers=headers) for _ in range(2)
        ]
    assert [answer.headers["x-request-id"] for answer in answers] == ["my-id.1"] * 2
    assert answers[0].json["id"] == "chatcmpl-my-id.1"
    first, second = (request.request_id for request in worker.requests)
    assert first != second
    assert first.startswith("my-id.1")
    assert second.startswith("my-id.1")


async def test_a_unit_of_another_tenant_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path, says("x")) as (it, worker):
        other = Client(it.gateway.app, OTHER_KEY.text)
        chat = await other.chat()
        listed = await other("GET", "/v1/models")
        query = await other("POST", "/iu/chat/v1/query", {"inputs": {}})
        card = await other("GET", "/v1/models/chat")
    assert [chat.status, query.status, card.status] == [404, 404, 404]
    assert chat.error["code"] == "model_not_found"
    assert listed.json == {"object": "list", "data": []}
    assert worker.requests == []
