"""`sits models` as a person types it, with a hub on this machine and no platform that runs."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.models import ModelStore
from sits.testing import FakeHub, tiny_gguf

MODEL = "huggingface://org/model"
SITS = [sys.executable, "-m", "sits.cli"]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with FakeHub() as hub:
        hub.add("org/model", {"m-Q8_0.gguf": tiny_gguf(padding_bytes=3_000_000)})
        yield {
            **os.environ,
            "HF_ENDPOINT": hub.endpoint,
            "SITS_MODELS_DIR": str(tmp_path / "store"),
            "SITS_ENGINE": "sits.testing:load_fake",
        }


def sits(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SITS, "models", *words], env=environment, capture_output=True, text=True, check=False
    )


def test_a_model_is_pulled_listed_and_removed(environment: dict[str, str]) -> None:
    pulled = sits(environment, "pull", MODEL)
    assert pulled.returncode == 0, pulled.stderr
    assert "asking the hub for m-Q8_0.gguf" in pulled.stderr
    assert "\r" not in pulled.stderr
    assert "\x1b" not in pulled.stderr
    digest = pulled.stdout.strip()
    listed = sits(environment, "list").stdout.splitlines()
    assert listed[1].split()[:3] == [MODEL, "3.0", "MB"]
    assert digest[7:19] in listed[1]
    [model] = json.loads(sits(environment, "list", "-o", "json").stdout)
    assert (model["digest"], model["references"]) == (digest, [MODEL])
    removed = sits(environment, "rm", digest[7:15])
    assert (removed.returncode, "removed" in removed.stderr) == (0, True)
    assert sits(environment, "list", "-o", "json").stdout.strip() == "[]"


def test_what_a_platform_needs_is_neither_removed_nor_collected(
    environment: dict[str, str], tmp_path: Path
) -> None:
    answer = json.loads(sits(environment, "pull", MODEL, "-o", "json").stdout)
    ModelStore(tmp_path / "store").keep(tmp_path, [answer["digest"]])
    refused = sits(environment, "rm", MODEL)
    assert (refused.returncode, str(tmp_path) in refused.stderr) == (1, True)
    assert json.loads(sits(environment, "gc", "-o", "json").stdout)["removed"] == []
    assert Path(answer["path"]).exists()


def test_a_dry_run_removes_nothing(environment: dict[str, str]) -> None:
    sits(environment, "pull", MODEL)
    dry = sits(environment, "gc", "--dry-run")
    assert dry.stdout.splitlines() == [MODEL]
    assert MODEL in sits(environment, "list").stdout
    assert sits(environment, "gc").returncode == 0
    assert MODEL not in sits(environment, "list").stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["pull", "nonsense"], 2, "has no scheme"),
        (["pull", "huggingface://org/none"], 1, "is not at the hub"),
        (["pull", "openai://gpt-4o"], 1, "served elsewhere"),
        (["rm", "builtin://none"], 1, "no model here"),
    ],
)
def test_what_cannot_be_done_is_told(
    environment: dict[str, str], words: list[str], status: int, said: str
) -> None:
    done = sits(environment, *words)
    assert (done.returncode, said in " ".join(done.stderr.split())) == (status, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_shows_a_bar(environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*SITS, "models", "pull", MODEL],
        env={**environment, "TERM": "xterm-256color", "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    assert b"\x1b[" in shown
    assert "\u2501".encode() in shown
