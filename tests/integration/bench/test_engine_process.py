"""The engine process of benchmarks: its rounds, and its end."""

import os
from pathlib import Path

import pytest

from sits.bench import BenchError
from sits.bench._client import ask
from sits.bench._engine import EngineProcess, run_engine
from sits.bench._engine_orders import Setup, Work
from sits.bench._platform import run_platform
from sits.bench._processes import pss_mb
from tests.processes import is_running

SYSTEM = "the same beginning of all of these prompts"


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITS_ENGINE", "sits.testing:load_fake")


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"")
    return str(path)


def works(count: int) -> list[Work]:
    return [Work((("system", SYSTEM), ("user", f"number {n}")), 5, n * 0.01) for n in range(count)]


def test_a_round_gives_every_answer_its_length_and_times(model: str) -> None:
    with run_engine(Setup(model, 2, 256)) as engine:
        done, most_mb = engine.run_looking(works(3))
        assert [each.completion_tokens for each in done] == [5, 5, 5]
        for number, each in enumerate(done):
            assert len(each.arrivals_s) == 5
            assert list(each.arrivals_s) == sorted(each.arrivals_s)
            assert each.arrivals_s[0] >= number * 0.01
        assert most_mb > 1.0
        assert engine.end_tokens


def test_a_pool_finds_what_a_fresh_context_computes_anew(model: str) -> None:
    for fresh in (False, True):
        with run_engine(Setup(model, 2, 256, fresh=fresh)) as engine:
            engine.run(works(1))
            (done,) = engine.run(works(1))
            assert (done.cached_tokens == 0) is fresh


def test_an_engine_that_cannot_be_had_is_told_with_its_last_words(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SITS_ENGINE", "sits.testing:no_such_engine")
    with pytest.raises(BenchError, match="no_such_engine"), run_engine(Setup(model, 2, 256)):
        pytest.fail("it ran")


def test_a_prompt_that_does_not_fit_ends_the_process_with_words(model: str) -> None:
    with run_engine(Setup(model, 1, 16)) as engine, pytest.raises(BenchError, match="context"):
        engine.run([Work((("user", "word " * 100),), 2)])


def test_the_process_ends_with_the_block(model: str) -> None:
    seen: list[EngineProcess] = []
    with run_engine(Setup(model, 1, 64)) as engine:
        seen.append(engine)
        assert is_running(engine._process.pid)
    assert not is_running(seen[0]._process.pid)


def test_memory_that_is_shared_is_divided() -> None:
    assert 0 < pss_mb(os.getpid()) < 4000


def test_a_platform_counts_its_processes_and_finds_its_model() -> None:
    with run_platform("", {"sequences": "2"}) as platform:
        assert platform.count_processes("control") == 1
        assert platform.count_processes("worker") == 0
        spec = {"name": "a", "model": "builtin://smollm2-135m-instruct"}
        with pytest.raises(BenchError, match="a unit has to be deployed first"):
            platform.model_file(spec["model"])
        platform.deploy(spec)
        assert platform.model_file(spec["model"]).size_bytes > 1_000_000
        answer = ask(platform.ask("a", [("user", "Hello.")], 3))
        assert answer.usage["completion_tokens"] == 3
        assert answer.headers["x-sits-tier"] in {"warm", "hot"}
        assert platform.count_processes("worker") == 1
