"""Embeddings through the whole platform, with the official client and the real model."""

import json
import math
from collections.abc import Iterator

import openai
import pytest

from tests.e2e.platform import EXAMPLE, Platform, platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

UNIT = EXAMPLE.with_name("embeddings.yaml")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform(tmp_path_factory.mktemp("home")) as running:
        running.sits("iu", "deploy", "--file", str(UNIT))
        running.sits("iu", "deploy", "--file", str(EXAMPLE))
        yield running


@pytest.fixture
def client(running: Platform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=0) as client:
        yield client


def likeness(one: list[float], other: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def test_texts_that_mean_the_same_are_near_each_other(client: openai.OpenAI) -> None:
    reply = client.embeddings.create(
        model="embeddings",
        input=[
            "The cat sits on the mat.",
            "A cat is sitting on a rug.",
            "Stock markets fell sharply today.",
        ],
    )
    cat, kitten, markets = (each.embedding for each in reply.data)
    assert len(cat) == 384
    assert math.hypot(*cat) == pytest.approx(1.0, abs=1e-5)
    assert likeness(cat, kitten) > 0.5
    assert likeness(cat, markets) < 0.2


def test_a_vector_is_that_of_the_published_model(client: openai.OpenAI) -> None:
    """Its page at the hub shows these sentences with 0.943 and 0.257."""
    reply = client.embeddings.create(
        model="embeddings",
        input=["That is a happy person", "That is a very happy person", "Today is a sunny day"],
        encoding_format="float",
    )
    person, very, day = (each.embedding for each in reply.data)
    assert likeness(person, very) == pytest.approx(0.943, abs=0.002)
    assert likeness(person, day) == pytest.approx(0.257, abs=0.002)


def test_tokens_are_those_of_the_models_own_tokenizer(client: openai.OpenAI) -> None:
    text = client.embeddings.create(model="embeddings", input="hello world")
    # [CLS] hello world [SEP], by the vocabulary of bert-base-uncased.
    tokens = client.embeddings.create(model="embeddings", input=[101, 7592, 2088, 102])
    assert likeness(text.data[0].embedding, tokens.data[0].embedding) > 0.99999
    assert text.usage.prompt_tokens == tokens.usage.prompt_tokens == 4


def test_a_large_request_keeps_its_order(client: openai.OpenAI) -> None:
    words = [f"the number {number}" for number in range(200)]
    many = client.embeddings.create(model="embeddings", input=words)
    one = client.embeddings.create(model="embeddings", input=words[150])
    assert [each.index for each in many.data] == list(range(200))
    assert likeness(many.data[150].embedding, one.data[0].embedding) > 0.9999


def test_refusals_say_what_to_do(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="at most 512 tokens") as too_long:
        client.embeddings.create(model="embeddings", input=["fits", "word " * 600])
    assert too_long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="vectors have 384") as cut:
        client.embeddings.create(model="embeddings", input="a", dimensions=100)
    assert cut.value.param == "dimensions"
    with pytest.raises(openai.BadRequestError, match="/v1/embeddings"):
        client.chat.completions.create(
            model="embeddings", messages=[{"role": "user", "content": "Hi"}]
        )
    with pytest.raises(openai.BadRequestError, match="/v1/chat/completions"):
        client.embeddings.create(model="chat", input="a")
    same = client.embeddings.create(model="embeddings", input="a", dimensions=384)
    assert len(same.data[0].embedding) == 384


def test_vectors_of_a_model_elsewhere_are_passed_on(
    running: Platform, client: openai.OpenAI
) -> None:
    secret = running.home / "secrets" / "default" / "self"
    secret.parent.mkdir(parents=True)
    secret.write_text(running.key)
    secret.chmod(0o600)
    endpoint = {"url": f"{running.url}/v1", "secret": "self", "model": "embeddings"}
    engine = {"kind": "openai", "serves": "embedding", "endpoints": [endpoint]}
    file = running.home / "far.yaml"
    file.write_text(json.dumps({"name": "far", "model": "openai://minilm", "engine": engine}))
    running.sits("iu", "deploy", "--file", str(file))
    far, near = (
        client.embeddings.create(model=name, input="hello", encoding_format="float")
        for name in ("far", "embeddings")
    )
    assert far.data[0].embedding == pytest.approx(near.data[0].embedding, abs=1e-6)
    assert far.usage == near.usage
