"""The official client, unchanged, against a gateway on a real port."""

import struct
from pathlib import Path

import anyio
import anyio.to_thread
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from sits.wire import UnitKind
from tests.integration.gateway.support import Platform, platform
from tests.unit.gateway.support import KEY, FakeWorker, Say, make_route, says

pytestmark = pytest.mark.anyio

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]


def client(it: Platform) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{it.url}/v1", api_key=KEY.text, max_retries=0)


async def test_it_lists_models_chats_and_streams(tmp_path: Path) -> None:
    worker = FakeWorker(tmp_path / "w0", says("Hel", "lo", " 👋"))
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker]) as it, client(it) as ai:
        models = [model.id async for model in ai.models.list()]
        card = await ai.models.retrieve("chat")
        whole = await ai.chat.completions.create(model="chat", messages=MESSAGES)
        stream = await ai.chat.completions.create(
            model="chat",
            messages=MESSAGES,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    assert models == ["chat"]
    assert card.id == "chat"
    assert whole.choices[0].message.content == "Hello 👋"
    assert whole.usage is not None
    assert whole.usage.total_tokens == 10
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello 👋"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3


async def test_the_synchronous_client_in_a_thread(tmp_path: Path) -> None:
    worker = FakeWorker(tmp_path / "w0", says("Hel", "lo"))
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker]) as it:

        def call() -> str:
            with openai.OpenAI(base_url=f"{it.url}/v1", api_key=KEY.text) as ai:
                stream = ai.chat.completions.create(
                    model="chat",
                    messages=MESSAGES,
                    stream=True,
                )
                return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

        assert await anyio.to_thread.run_sync(call) == "Hello"


async def test_it_embeds_texts_and_tokens_in_either_encoding(tmp_path: Path) -> None:
    vectors = [[0.5, -1.0], [0.25, 2.0]]

    async def script(say: Say) -> None:
        await say.vectors(*(struct.pack("<2f", *vector) for vector in vectors))

    worker = FakeWorker(tmp_path / "w0", script)
    route = make_route(instances=(worker.routed,), kind=UnitKind.EMBEDDING)
    async with platform(tmp_path, route, workers=[worker]) as it, client(it) as ai:
        # Not told which encoding, this client asks for base64.
        texts = await ai.embeddings.create(model="chat", input=["a", "b"])
        tokens = await ai.embeddings.create(
            model="chat", input=[[1, 2], [3]], encoding_format="float", user="me"
        )
        with pytest.raises(openai.BadRequestError, match="/v1/embeddings"):
            await ai.chat.completions.create(model="chat", messages=MESSAGES)
        with pytest.raises(openai.BadRequestError, match="not empty"):
            await ai.embeddings.create(model="chat", input=[""])
    assert [each.embedding for each in texts.data] == vectors
    assert [each.embedding for each in tokens.data] == vectors
    assert [each.index for each in texts.data] == [0, 1]
    assert (texts.model, texts.usage.prompt_tokens, texts.usage.total_tokens) == ("chat", 5, 5)
    assert [order.inputs for order in worker.embeds] == [("a", "b"), ((1, 2), (3,))]


async def test_its_errors_are_the_right_ones(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say.fail("context_length_exceeded", "the prompt has 9 tokens; 8 are taken")

    worker = FakeWorker(tmp_path / "w0", script)
    routes = [
        make_route(instances=(worker.routed,)),
        make_route(name="broken", refusal="its file is gone"),
    ]
    async with platform(tmp_path, *routes, workers=[worker]) as it, client(it) as ai:
        with pytest.raises(openai.NotFoundError):
            await ai.chat.completions.create(model="none", messages=MESSAGES)
        with pytest.raises(openai.BadRequestError) as caught:
            await ai.chat.completions.create(model="chat", messages=MESSAGES)
        assert caught.value.code == "context_length_exceeded"
        with pytest.raises(openai.InternalServerError) as unavailable:
            await ai.chat.completions.create(model="broken", messages=MESSAGES)
        assert unavailable.value.status_code == 503
        with pytest.raises(openai.AuthenticationError):
            await ai.with_options(api_key="sk-wrong").models.list()


async def test_an_error_in_a_stream_is_raised_and_not_taken_for_its_end(tmp_path: Path) -> None:
    async def script(say: Say) -> None:
        await say("a")
        await say.fail("engine_error", "the engine stopped")

    worker = FakeWorker(tmp_path / "w0", script)
    route = make_route(instances=(worker.routed,))
    async with platform(tmp_path, route, workers=[worker]) as it, client(it) as ai:
        stream = await ai.chat.completions.create(
            model="chat",
            messages=MESSAGES,
            stream=True,
        )
        texts: list[str] = []

        async def read() -> None:
            async for chunk in stream:
                texts.append(chunk.choices[0].delta.content or "")  # noqa: PERF401 - up to the error

        with pytest.raises(openai.APIError, match="the engine stopped"):
            await read()
    assert texts == ["a"]
