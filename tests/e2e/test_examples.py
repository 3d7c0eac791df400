"""Every file in `examples/`, on a platform that runs: it is deployed, ready, and answers.

What it names that is elsewhere is here: a hub with a tiny BERT, an endpoint that speaks OpenAI's
API. A new example has to be given a way to be asked, in `ASKED`.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sits.spec import cluster_form, load_unit
from sits.testing import FakeHub, FakeOpenAI
from tests.e2e.platform import Platform, platform
from tests.tiny_bert import CLS, SEP, WIDTH, WORDS, TinyBert

EXAMPLES = Path(__file__).parents[2] / "examples"
KEY = "sk-of-the-endpoint-elsewhere"
MEAN_POOLING = 1

Ask = Callable[[Platform, str], None]


def post(running: Platform, path: str, body: dict[str, Any]) -> Any:
    with running.http() as http:
        reply: httpx2.Response = http.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def ask_template(running: Platform, name: str) -> None:
    """Fill the unit's template; the fake engine answers with the words that it was asked."""
    body = {"inputs": {"question": "Is anybody there?"}}
    assert post(running, f"/iu/{name}/v1/query", body)["output"] == "Is anybody there?"


def ask_chat(running: Platform, name: str) -> None:
    body = {"model": name, "messages": [{"role": "user", "content": "Is anybody there?"}]}
    answer = post(running, "/v1/chat/completions", body)
    assert answer["choices"][0]["message"]["content"] == "Is anybody there?"


def embed(running: Platform, name: str, words: str) -> list[float]:
    answer = post(running, "/v1/embeddings", {"model": name, "input": words})
    vector: list[float] = answer["data"][0]["embedding"]
    return vector


def ask_minilm(running: Platform, name: str) -> None:
    assert len(embed(running, name, "Is anybody there?")) == 384


def ask_bert(running: Platform, name: str) -> None:
    vector = embed(running, name, "the cat sat")
    expected = TinyBert().embed([CLS, *map(WORDS.index, ("the", "cat", "sat")), SEP])
    assert len(vector) == WIDTH
    assert vector == pytest.approx(expected.tolist(), abs=2e-3)


# The platform that it runs on, and how it is asked.
ASKED: dict[str, tuple[str, Ask]] = {
    "chat.yaml": ("fake", ask_template),
    "cluster.yaml": ("fake", ask_template),
    "everything.yaml": ("fake", ask_template),
    "remote.yaml": ("fake", ask_chat),
    "embeddings.yaml": ("real", ask_minilm),
    "bert-finetune-adapter.yaml": ("real", ask_bert),
    "bert-finetune-trainer.yaml": ("real", ask_bert),
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as endpoint:
        endpoint.behaviour.key = KEY
        yield endpoint


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    environment = {"SITS_ENGINE": "sits.testing:load_fake", "SITS_SECRET_OPENAI_KEY": KEY}
    with platform(tmp_path_factory.mktemp("fake"), **environment) as running:
        yield running


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    directory = tmp_path_factory.mktemp("real")
    file = Path(TinyBert().write(directory / "model.gguf", MEAN_POOLING))
    with FakeHub() as hub:
        hub.add("bert-base-uncased", {"model.gguf": file.read_bytes()}, tag="v2.4.1")
        # A directory of models of its own: what this hub has is nothing that others may find.
        own = {"HF_ENDPOINT": hub.endpoint, "SITS_MODELS_DIR": str(directory / "models")}
        with platform(directory / "home", **own) as running:
            yield running


def deploy(running: Platform, text: str) -> dict[str, Any]:
    path = running.home / "unit.yaml"
    path.write_text(text, encoding="utf-8")
    answer: dict[str, Any] = json.loads(
        running.sits("iu", "deploy", "--file", str(path), "-o", "json")
    )
    return answer


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_an_example_becomes_ready_and_answers_in_both_forms(
    example: str, request: pytest.FixtureRequest, endpoint: FakeOpenAI
) -> None:
    kind, ask = ASKED[example]
    running: Platform = request.getfixturevalue(kind)
    text = (EXAMPLES / example).read_text(encoding="utf-8")
    text = text.replace("https://api.openai.com/v1", endpoint.url)
    unit = load_unit(text, example).unit
    deployed = deploy(running, text)
    assert (deployed["name"], deployed["phase"]) == (unit.name, "Ready")
    ask(running, unit.name)
    on_a_cluster = deploy(running, json.dumps(cluster_form(unit)))
    assert on_a_cluster["revision"] == deployed["revision"]
    ask(running, unit.name)
    completed = running.run("iu", "list", "-o", "json")
    assert [each["name"] for each in json.loads(completed.stdout)] == [unit.name]
    running.sits("iu", "delete", unit.name)
    running.sits("iu", "wait", unit.name, "--for", "deleted")


def test_what_an_example_says_and_is_not_acted_on_is_told(fake: Platform) -> None:
    path = str(EXAMPLES / "everything.yaml")
    notes = json.loads(fake.sits("iu", "deploy", "-f", path, "--dry-run", "-o", "json"))["notes"]
    sections = {re.split(r"[:.\[]", note)[0] for note in notes}
    assert sections >= {"lora", "adapter", "trainer", "scale", "slo", "budget", "session"}
