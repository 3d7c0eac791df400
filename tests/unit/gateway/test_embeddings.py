"""`/v1/embeddings`: what a request may say, and the answer in OpenAI's form."""

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sits.gateway._embeddings import read_embeddings
from sits.gateway._errors import ApiError
from sits.gateway._render_embeddings import render_embeddings
from sits.wire import UnitKind, Usage
from tests.unit.gateway.support import (
    OTHER_KEY,
    Client,
    FakeWorker,
    Say,
    hangs,
    make_route,
    running,
    serving,
)

pytestmark = pytest.mark.anyio

EMBEDDING: dict[str, Any] = {"kind": UnitKind.EMBEDDING, "template": None}
ONE, TWO = struct.pack("<2f", 0.5, -1.0), struct.pack("<2f", 0.25, 2.0)


def read(**fields: Any) -> Any:
    body = {"model": "chat", "input": "text", **fields}
    return read_embeddings(body, lambda _: make_route(**EMBEDDING), max_inputs=3)


async def two(say: Say) -> None:
    await say.vectors(ONE, TWO)


async def embed(client: Client, leave: anyio.Event | None = None, **fields: Any) -> Any:
    body = {"model": "chat", "input": ["a", "b"], **fields}
    return await client("POST", "/v1/embeddings", body, leave=leave)


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ("one text", ("one text",)),
        (["a", "b"], ("a", "b")),
        ([1, 2, 3], ((1, 2, 3),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
        ([[0, 2**31 - 1]], ((0, 2**31 - 1),)),
    ],
)
def test_an_input_has_any_of_four_forms(given: Any, inputs: Any) -> None:
    assert read(input=given).inputs == inputs


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"input": None}, "input", "missing"),
        ({"input": ""}, "input[0]", "not empty"),
        ({"input": []}, "input", "an array of length 0"),
        ({"input": 3}, "input", "is 3; expected a text"),
        ({"input": {}}, "input", "an object"),
        ({"input": ["a", ""]}, "input[1]", "not empty"),
        ({"input": ["a", 1]}, "input[1]", "is 1; expected a text, as the first"),
        ({"input": [[1], "a"]}, "input[1]", "expected an array of at least one token id"),
        ({"input": [[1], []]}, "input[1]", "at least one token id"),
        ({"input": [1, -1]}, "input[0][1]", "is -1"),
        ({"input": [[1, 2**31]]}, "input[0][1]", "is 2147483648"),
        ({"input": [[1, True]]}, "input[0][1]", "is a boolean"),
        ({"input": [1, 1.5]}, "input[0][1]", "is a number"),
        ({"input": [None]}, "input[0]", "is null"),
        ({"input": ["a"] * 4}, "input", "has 4 inputs; at most 3"),
        ({"dimensions": 0}, "dimensions", "is 0; expected an integer from 1 to 1048576"),
        (
            {"dimensions": 10**9},
            "dimensions",
            "is 1000000000; expected an integer from 1 to 1048576",
        ),
        ({"encoding_format": "int8"}, "encoding_format", "'float' or 'base64'"),
        ({"truncate": True}, "truncate", "not known"),
    ],
)
def test_refuses_by_name_what_it_cannot_take(fields: Any, param: str, said: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert said in caught.value.message


def test_a_user_is_taken_and_dropped() -> None:
    assert read(user="someone").inputs == ("text",)


async def test_an_answer_has_openais_form_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    async with serving(tmp_path, two, **EMBEDDING) as (it, worker):
        answer = await embed(it.client)
        assert it.counts() == {}
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]},
            {"object": "embedding", "index": 1, "embedding": [0.25, 2.0]},
        ],
        "model": "chat",
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }
    assert answer.headers["content-length"] == str(len(answer.body))
    assert answer.headers["x-sits-revision"] == "0a1b2c3d4e5f"
    assert answer.headers["x-sits-tier"] == "hot"
    (asked,) = worker.embeds
    assert (asked.inputs, asked.dimensions) == (("a", "b"), None)


async def test_base64_is_of_the_bytes_of_float32_in_little_endian(tmp_path: Path) -> None:
    async with serving(tmp_path, two, **EMBEDDING) as (it, _):
        answer = await embed(it.client, encoding_format="base64")
    assert [base64.b64decode(each["embedding"]) for each in answer.json["data"]] == [ONE, TWO]


def test_a_large_answer_is_made_in_parts_that_are_one_document() -> None:
    vectors = [struct.pack("<2f", number, 1) for number in range(100)]
    parts = list(render_embeddings(vectors, "unit", Usage(7, 0), as_base64=False))
    assert len(parts) > 3
    data = json.loads(b"".join(parts))["data"]
    assert [(each["index"], each["embedding"]) for each in data] == [
        (number, [number, 1]) for number in range(100)
    ]


async def test_others_have_their_turn_while_a_large_answer_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, seen = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    def watched(*given: Any, **more: Any) -> Iterator[bytes]:
        for part in render_embeddings(*given, **more):
            seen.append(turns)
            yield part

    async def many(say: Say) -> None:
        await say.vectors(*[ONE] * 200)

    monkeypatch.setattr("sits.gateway._relay.render_embeddings", watched)
    async with serving(tmp_path, many, **EMBEDDING) as (it, _), anyio.create_task_group() as group:
        group.start_soon(others)
        answer = await it.client("POST", "/v1/embeddings", {"model": "chat", "input": ["a"] * 200})
        group.cancel_scope.cancel()
    assert len(answer.json["data"]) == 200
    assert len(set(seen)) == len(seen) > 5


async def test_dimensions_reach_the_model_and_its_refusal_names_them(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say.fail("unsupported_dimensions", "'dimensions' is 4; this model's vectors have 2")

    async with serving(tmp_path, script, **EMBEDDING) as (it, worker):
        answer = await embed(it.client, dimensions=4)
        assert worker.embeds[0].dimensions == 4
    assert answer.status == 400
    assert (answer.error["param"], answer.error["code"]) == ("dimensions", "unsupported_dimensions")


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        (UnitKind.EMBEDDING, "/v1/chat/completions", "/v1/embeddings"),
        (UnitKind.EMBEDDING, "/iu/chat/v1/query", "/v1/embeddings"),
        (UnitKind.CHAT, "/v1/embeddings", "/v1/chat/completions"),
    ],
)
async def test_a_call_of_the_other_kind_is_told_what_to_call(
    tmp_path: Path, kind: UnitKind, path: str, said: str
) -> None:
    async with serving(tmp_path, hangs, kind=kind) as (it, worker):
        body = {"model": "chat", "input": "a", "messages": [{"role": "user", "content": "a"}]}
        answer = await it.client("POST", path, body)
        assert worker.orders == []
    assert answer.status == 400
    assert (answer.error["code"], answer.error["param"]) == ("wrong_endpoint", "model")
    assert said in answer.error["message"]


async def test_another_tenants_unit_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path, two, **EMBEDDING) as (it, _):
        answer = await embed(Client(it.gateway.app, OTHER_KEY.text))
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")


async def test_a_client_that_leaves_stops_the_work(tmp_path: Path) -> None:
    leave = anyio.Event()
    async with (
        serving(tmp_path, hangs, **EMBEDDING) as (it, worker),
        anyio.create_task_group() as group,
    ):
        group.start_soon(embed, it.client, leave)
        await worker.until(lambda: len(worker.embeds) == 1)
        assert it.counts() == {"chat": (0, 1)}
        leave.set()
        await worker.until(lambda: worker.cancelled == [worker.embeds[0].request_id])
        assert it.counts() == {}


async def test_a_lost_instance_costs_only_time(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        if len(worker.embeds) == 1:
            await say.fail("instance_lost")
        await two(say)

    worker = FakeWorker(tmp_path / "w0", script)
    async with running(tmp_path, [worker]) as it:
        it.table(make_route(instances=(worker.routed,), **EMBEDDING))
        answer = await embed(it.client)
    assert (answer.status, len(worker.embeds)) == (200, 2)


async def test_an_answer_with_a_vector_too_few_is_a_fault_of_ours(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say.vectors(ONE)

    async with serving(tmp_path, script, **EMBEDDING) as (it, _):
        answer = await embed(it.client)
    assert (answer.status, answer.error["code"]) == (500, "engine_error")


async def test_a_client_that_does_not_read_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    stuck = anyio.Event()

    async def send(event: Any) -> None:
        if event["type"] == "http.response.body":
            stuck.set()
            await anyio.sleep_forever()

    async with serving(tmp_path, two, {"idle_s": 0.02}, **EMBEDDING) as (it, _):
        scope = Client(it.gateway.app)._scope("POST", "/v1/embeddings", {})
        bodies = [b'{"model": "chat", "input": ["a", "b"]}']

        async def receive() -> dict[str, Any]:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            await anyio.sleep_forever()
            raise AssertionError

        await it.gateway.app(scope, receive, send)
        assert stuck.is_set()
        assert it.counts() == {}
