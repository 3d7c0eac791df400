"""The official client, unchanged, against `sits up` and the real model."""

import json
from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.e2e.platform import EXAMPLE, Platform, platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform(tmp_path_factory.mktemp("home")) as running:
        running.sits("iu", "deploy", "--file", str(EXAMPLE))
        yield running


@pytest.fixture
def client(running: Platform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=0) as client:
        yield client


def says(words: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": words}]


def test_chats(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="chat",
        messages=says("What is the capital of France?"),
        temperature=0,
        max_tokens=40,
    )
    assert "Paris" in (reply.choices[0].message.content or "")
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert 5 <= reply.usage.completion_tokens <= 40


def test_streams_the_same_answer_piece_by_piece(client: openai.OpenAI) -> None:
    question = "List three colours, separated by commas."
    messages = says(question)
    whole = client.chat.completions.create(
        model="chat",
        messages=messages,
        temperature=0,
        max_tokens=30,
    )
    chunks = list(
        client.chat.completions.create(
            model="chat",
            messages=messages,
            temperature=0,
            max_tokens=30,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    deltas = [c.choices[0].delta.content for c in chunks if c.choices]
    assert "".join(filter(None, deltas)) == whole.choices[0].message.content
    assert len([d for d in deltas if d]) > 3
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] is not None
    assert whole.usage is not None
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    # The second time all of the prompt but its last token was there.
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1
    whole.usage.prompt_tokens_details = usage.prompt_tokens_details
    assert usage == whole.usage
    assert len({c.id for c in chunks}) == 1


def test_lists_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["chat"]
    assert client.models.retrieve("chat").id == "chat"


def test_stop_strings_end_an_answer_and_are_not_in_it(client: openai.OpenAI) -> None:
    messages = says("What is the capital of France?")
    reply = client.chat.completions.create(
        model="chat",
        messages=messages,
        temperature=0,
        max_tokens=40,
        stop=["is Par"],
    )
    assert reply.choices[0].message.content == "The capital of France "
    assert reply.choices[0].finish_reason == "stop"


def test_refusals_are_the_clients_own_exceptions(running: Platform, client: openai.OpenAI) -> None:
    messages = says("Hello")
    with pytest.raises(openai.NotFoundError, match="nobody"):
        client.chat.completions.create(model="nobody", messages=messages)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(
            model="chat",
            messages=messages,
            temperature=9,
        )
    with pytest.raises(openai.BadRequestError, match="2048"):
        client.chat.completions.create(model="chat", messages=says("word " * 3000))
    stranger = openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_commands_reach_the_unit(running: Platform) -> None:
    assert "Paris" in running.sits(
        "chat", "chat", "What is the capital of France?", "--temperature", "0"
    )
    called = running.sits(
        "iu", "call", "chat", "-i", "question=What is the capital of France?", "--temperature", "0"
    )
    assert "Paris" in called
    assert '"name": "chat"' in running.sits("iu", "list", "-o", "json")


def test_a_second_platform_on_the_same_home_is_refused(running: Platform) -> None:
    refused = running.run("up", "--port", "0")
    assert refused.returncode == 1
    assert "already running" in refused.stderr
    assert running.url in refused.stderr


def test_what_a_model_cannot_be_is_refused_at_deploy(running: Platform) -> None:
    bert = EXAMPLE.with_name("bert-finetune-trainer.yaml")
    refused = running.run("iu", "deploy", "--file", str(bert))
    assert refused.returncode == 1
    assert "builtin://smollm2-135m-instruct" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_demo_prints_its_figures(running: Platform) -> None:
    answer = json.loads(running.sits("demo", "-o", "json"))
    assert set(answer) == {"answer", "tokens", "tier", "ttft_ms", "tokens_per_s"}
    assert "plants" in answer["answer"]
    assert answer["tier"] == "warm"
    assert answer["tokens"] > 5
