"""Units with adapters, on a platform as a person starts it."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sits.testing import tiny_adapter
from tests.e2e.platform import SLOW_ENGINE, Platform, platform
from tests.links import wait_for
from tests.lora import draw_factors, write_adapter

SYSTEM = "You are a helpful assistant that answers every question in one short sentence."


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Platform]:
    with platform(tmp_path / "home", SITS_ENGINE=SLOW_ENGINE) as running:
        yield running


def deploy(running: Platform, folder: Path, name: str, status: int = 0, **fields: Any) -> str:
    """Deploy a unit and wait until it serves; return what was said on standard error."""
    path = folder / f"{name}.json"
    unit = {"name": name, "model": "builtin://smollm2-135m-instruct", **fields}
    path.write_text(json.dumps(unit), encoding="utf-8")
    done = running.run("iu", "deploy", "--file", str(path))
    assert done.returncode == status, done.stderr
    return done.stderr


def ask(running: Platform, unit: str, words: str = "hello", request_id: str = "") -> str:
    body = {
        "model": unit,
        "messages": [{"role": "user", "content": words}],
        "temperature": 0,
        "max_tokens": 48,
    }
    with running.http() as http:
        headers = {"x-request-id": request_id} if request_id else {}
        reply = http.post("/v1/chat/completions", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["choices"][0]["message"]["content"])


def conditions(running: Platform, unit: str) -> dict[str, tuple[str, str]]:
    status = json.loads(running.sits("iu", "get", unit, "-o", "json"))["status"]
    return {each["type"]: (each["status"], each["message"]) for each in status["conditions"]}


def test_units_share_a_worker_and_answer_each_with_its_own_adapter(
    running: Platform, tmp_path: Path
) -> None:
    tone = tmp_path / "tone.gguf"
    tone.write_bytes(tiny_adapter("[tone] "))
    deploy(running, tmp_path, "plain")
    assert "not acted on" not in deploy(running, tmp_path, "adapted", lora=f"file://{tone}")
    for _ in range(2):
        assert ask(running, "plain") == "hello"
        assert ask(running, "adapted") == "[tone] hello"
    running.wait_for_family(worker=1, template=1)
    assert conditions(running, "adapted")["AdaptersAvailable"] == ("True", f"file://{tone}")
    tone.write_bytes(tiny_adapter("[new] "))
    assert ask(running, "adapted") == "[tone] hello"
    deploy(running, tmp_path, "adapted", lora=f"file://{tone}")
    assert wait_for(lambda: ask(running, "adapted") == "[new] hello" or None, "still the old one")
    assert ask(running, "plain") == "hello"


def test_a_share_of_the_requests_gets_the_adapter_and_a_lost_one_keeps_it(
    running: Platform, tmp_path: Path
) -> None:
    tone = tmp_path / "tone.gguf"
    tone.write_bytes(tiny_adapter("[tone] "))
    deploy(running, tmp_path, "shared", lora=[{"adapter": f"file://{tone}", "weight": "50%"}])
    answers = {f"req-{n}": ask(running, "shared", "x", f"req-{n}") for n in range(30)}
    counts = Counter(answers.values())
    assert counts.keys() == {"x", "[tone] x"}
    assert min(counts.values()) >= 5
    for wanted in ("x", "[tone] x"):
        request_id = next(name for name, answer in answers.items() if answer == wanted)
        words = "y" * 40
        (worker,) = running.family()["sits-worker"]
        body = {"model": "shared", "messages": [{"role": "user", "content": words}], "stream": True}
        text = ""
        with (
            running.http() as http,
            http.stream(
                "POST", "/v1/chat/completions", json=body, headers={"x-request-id": request_id}
            ) as reply,
        ):
            for line in reply.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line.removeprefix("data: "))["choices"]:
                        text += choice["delta"].get("content") or ""
                    if len(text) == 12:
                        os.kill(worker, signal.SIGKILL)
        assert text == wanted.removesuffix("x") + words


def test_a_file_that_is_no_adapter_for_the_model_refuses_the_deploy(
    running: Platform, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(tiny_adapter("", "qwen3"))
    for path, words in (
        (wrong, "is for the architecture 'qwen3', and the model is 'llama'"),
        (tmp_path / "missing.gguf", "No such file"),
    ):
        said = deploy(running, tmp_path, "adapted", status=1, lora=f"file://{path}")
        assert f"adapter 'file://{path}'" in " ".join(said.split())
        assert words in " ".join(said.split())


@pytest.mark.model
@pytest.mark.timeout(120)
def test_the_real_model_answers_otherwise_with_an_adapter(tmp_path: Path) -> None:
    tone = write_adapter(tmp_path / "tone.gguf", draw_factors(7, size=0.3))
    with platform(tmp_path / "home") as running:
        deploy(running, tmp_path, "plain", prompt={"system": SYSTEM})
        deploy(running, tmp_path, "adapted", prompt={"system": SYSTEM}, lora=f"file://{tone}")
        words = "What is the capital of France?"
        plain, adapted = (ask(running, unit, words) for unit in ("plain", "adapted"))
        assert plain != adapted
        running.wait_for_family(worker=1, template=1)
        assert ask(running, "plain", words) == plain
        assert ask(running, "adapted", words) == adapted
