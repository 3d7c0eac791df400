"""Preparing real files for the real engine, and files for the fake one."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sits.models import (
    Action,
    Machine,
    ModelKind,
    builtin_path,
    decide_representation,
    kind_of,
    read_gguf_file,
)
from sits.models._architectures import DECODERS, ENCODERS
from sits.testing import tiny_gguf

PROMPT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


def prepare(*arguments: str | Path) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "sits.runtime.prepare", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def shipped() -> Path:
    return builtin_path("smollm2-135m-instruct")


def complete(path: Path) -> tuple[str, list[float]]:
    """Return the greedy answer to a prompt, and the logits of its first token."""
    import llama_cpp  # noqa: PLC0415 - the engine is not installed everywhere

    llama = llama_cpp.Llama(str(path), n_ctx=512, n_threads=1, verbose=False)
    try:
        llama.eval(llama.tokenize(PROMPT.encode(), special=True))
        logits = [llama._ctx.get_logits_ith(-1)[i] for i in range(llama.n_vocab())]
        text = llama.create_completion(PROMPT, max_tokens=16, temperature=0)
        return text["choices"][0]["text"], logits  # type: ignore[index]
    finally:
        llama.close()


@pytest.mark.model
@pytest.mark.timeout(120)
def test_what_is_chosen_says_what_the_file_is_and_answers_as_it_did(
    shipped: Path, tmp_path: Path
) -> None:
    status, record = prepare(shipped, tmp_path)
    assert (status, record["architecture"], record["context_tokens"]) == (0, "llama", 8192)
    assert record["shipped"] == "Q4_1"
    assert record["reason"]
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    if "avx512_bf16" not in flags:
        assert {measured["representation"] for measured in record["measured"]} >= {"Q4_1", "F16"}
    else:
        assert (record["representation"], record["measured"]) == ("BF16", [])
    if record["file"]:
        path = tmp_path / record["file"]
        assert path.stat().st_size == record["size_bytes"]
        assert [each.name for each in tmp_path.iterdir()] == [record["file"]]
        assert read_gguf_file(path).representation == record["representation"]
        before, after = complete(shipped), complete(path)
        assert "Paris" in before[0]
        assert after[0] == before[0]
        # The two compute with other roundings (prefill in pieces alone moves Q4_1 by 1.0).
        assert max(abs(a - b) for a, b in zip(before[1], after[1], strict=True)) < 2.0


@pytest.mark.model
@pytest.mark.timeout(180)
def test_without_a_known_answer_the_forms_are_measured(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sits.runtime.prepare import _main  # noqa: PLC0415 - imports the engine

    old = Machine(frozenset(), 64 * 10**9, 50 * 10**9)
    monkeypatch.setattr(_main, "read_machine", lambda _directory: old)
    record = _main._prepare("sits.runtime.engine.llamacpp:load", shipped, tmp_path)
    times = {each.representation: (each.prefill_ms, each.decode_ms) for each in record.measured}
    assert set(times) == {"Q4_1", "BF16", "F16", "Q8_0"}
    assert all(prefill > 0 < step for prefill, step in times.values())
    total = {name: prefill + 64 * step for name, (prefill, step) in times.items()}
    assert total[record.representation] <= total["Q4_1"]
    left = [each.name for each in tmp_path.iterdir()]
    assert left == ([record.file] if record.file else [])


@pytest.mark.model
def test_a_file_that_the_engine_cannot_run_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "m.gguf"
    for content, words in (
        (tiny_gguf("llama"), "cannot load this model"),
        (tiny_gguf("t5"), "architecture 't5'"),
        (b"GGUF", "ends too early"),
    ):
        source.write_bytes(content)
        status, failure = prepare(source, tmp_path)
        assert (status, failure["code"]) == (1, "model")
        assert words in failure["error"]


@pytest.mark.model
def test_a_truncated_file_is_refused_and_leaves_nothing(shipped: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "m.gguf", tmp_path / "out"
    out.mkdir()
    with shipped.open("rb") as whole:
        source.write_bytes(whole.read(40_000_000))
    status, failure = prepare(source, out)
    assert (status, failure["code"]) == (1, "model")
    assert list(out.iterdir()) == []


def test_files_of_another_engine_stay_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "m.gguf"
    source.write_bytes(b"whatever the fake engine takes")
    status, record = prepare("--engine", "sits.testing:load_fake", source, tmp_path)
    assert (status, record["file"], record["representation"]) == (0, "", "as shipped")


def test_an_engine_that_refuses_a_file_is_told(tmp_path: Path) -> None:
    source = tmp_path / "m.json"
    source.write_text('{"load_error": "these weights are cursed"}', encoding="utf-8")
    status, failure = prepare("--engine", "sits.testing:load_fake", source, tmp_path)
    assert (status, failure) == (1, {"error": "these weights are cursed", "code": "model"})


@pytest.mark.model
def test_the_engine_knows_every_architecture_that_is_accepted(tmp_path: Path) -> None:
    """llama.cpp says `unknown model architecture`, or that something else is missing."""
    import llama_cpp.llama_cpp as native  # noqa: PLC0415

    said: list[str] = []

    @native.llama_log_callback  # type: ignore[untyped-decorator]
    def log(_level: int, text: bytes, _data: Any) -> None:
        said.append((text or b"").decode("utf-8", "replace"))

    native.llama_log_set(log, ctypes.c_void_p(0))
    native.llama_backend_init()
    path = tmp_path / "m.gguf"
    unknown = []
    try:
        for name in sorted(DECODERS | ENCODERS | {"no-such-thing"}):
            path.write_bytes(tiny_gguf(name))
            said.clear()
            model = native.llama_model_load_from_file(
                str(path).encode(), native.llama_model_default_params()
            )
            assert not model
            if "unknown model architecture" in "".join(said):
                unknown.append(name)
    finally:
        # The callback goes with this function; the next model must not call it.
        native.llama_log_set(llama_log_nothing(native), ctypes.c_void_p(0))
    assert unknown == ["no-such-thing"]


_kept: list[Any] = []


def llama_log_nothing(native: Any) -> Any:
    callback = native.llama_log_callback(lambda _level, _text, _data: None)
    _kept.append(callback)
    return callback


@pytest.mark.model
def test_the_header_agrees_with_the_gguf_package(shipped: Path) -> None:
    from collections import Counter  # noqa: PLC0415

    from gguf import GGUFReader  # noqa: PLC0415

    reader = GGUFReader(shipped)
    elements: Counter[str] = Counter()
    for tensor in reader.tensors:
        elements[tensor.tensor_type.name] += int(tensor.n_elements)
    header = read_gguf_file(shipped)
    assert header.elements == elements
    assert kind_of(header, "x") is ModelKind.CHAT
    plan = decide_representation(header.elements, Machine(frozenset(), 10**12, 10**12))
    assert plan.action is Action.MEASURE
