"""A model whose vocabulary was remembered is the model as it is when all of it is loaded."""

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sits.runtime.engine import Feed, Model, PoolShape, _llama_vocabulary, llamacpp
from sits.runtime.engine._llama_native import native
from sits.wire import Sampling
from tests.models import smollm2_path

WORDS = "Grüße 😀 <|im_end|> from 3 tokens\n"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Any, Any]]:
    kept: dict[Any, Any] = {}
    monkeypatch.setattr(_llama_vocabulary, "_kept", kept)
    yield kept
    for model, _ in kept.values():
        native.llama_model_free(model)


def answer(model: Model, schema: str | None = None) -> list[int]:
    """Return eight tokens, the most probable ones."""
    engine = model.make_engine(PoolShape(sequences=1, sequence_tokens=64, batch_tokens=64, kept=0))
    engine.open(0)
    tokens = model.tokenize("Name a colour as JSON: ", parse_special=True)
    sampler = engine.make_sampler(Sampling(temperature=0, json_schema=schema))
    found: list[int] = []
    at = 0
    for _ in range(8):
        (sampled,) = engine.step([Feed(0, at, tokens, sampler)])
        at += len(tokens)
        tokens = [sampled.token]
        found += tokens
    sampler.close()
    engine.shutdown()
    return found


def loads_vocabulary(path: str) -> bool:
    """Return whether loading it reads a vocabulary of its own."""
    model = llamacpp.load(path)
    try:
        return bool(native.llama_vocab_bos(native.llama_model_get_vocab(model._model)) >= 0)
    finally:
        model.close()


def test_it_says_tokenizes_and_answers_the_same(kept: dict[Any, Any]) -> None:
    whole = llamacpp.load(smollm2_path())
    llamacpp.remember(smollm2_path())
    assert len(kept) == 1
    assert not loads_vocabulary(smollm2_path())
    bare = llamacpp.load(smollm2_path())
    assert bare.info == whole.info
    for special in (True, False):
        tokens = whole.tokenize(WORDS, parse_special=special)
        assert bare.tokenize(WORDS, parse_special=special) == tokens
        assert list(map(bare.token_bytes, tokens)) == list(map(whole.token_bytes, tokens))
    schema = '{"type": "object", "properties": {"colour": {"type": "string"}}}'
    assert answer(bare) == answer(whole)
    assert answer(bare, schema) == answer(whole, schema)
    bare.close()
    whole.close()


def write_embedding_model(path: Path) -> None:
    """Write SmolLM2 with a pooling in its header, by which it makes vectors."""
    data = Path(smollm2_path()).read_bytes()
    count = int.from_bytes(data[16:24], "little")

    def text(words: str) -> bytes:
        return struct.pack("<Q", len(words)) + words.encode()

    mean = text("llama.pooling_type") + struct.pack("<II", 4, 1)
    filler = text("x") + struct.pack("<I", 8) + text("y" * 9)
    added = mean + filler
    assert len(added) % 32 == 0  # tensors stay where their alignment has them
    path.write_bytes(data[:16] + struct.pack("<Q", count + 2) + added + data[24:])


def test_a_model_that_makes_vectors_is_not_kept(kept: dict[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "vectors.gguf"
    write_embedding_model(path)
    whole = llamacpp.load(str(path))
    assert whole.info.embedding is not None
    whole.close()
    llamacpp.remember(str(path))
    assert not kept
    again = llamacpp.load(str(path))
    assert again.info == whole.info
    again.close()


def test_a_file_that_has_changed_is_read_anew(kept: dict[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copyfile(smollm2_path(), path)
    llamacpp.remember(str(path))
    assert not loads_vocabulary(str(path))
    os.utime(path, (1, 1))
    assert loads_vocabulary(str(path))


def test_no_more_are_kept_than_a_few(kept: dict[Any, Any], tmp_path: Path) -> None:
    for number in range(_llama_vocabulary._MOST + 1):
        path = tmp_path / f"{number}.gguf"
        shutil.copyfile(smollm2_path(), path)
        llamacpp.remember(str(path))
    assert len(kept) == _llama_vocabulary._MOST
    assert loads_vocabulary(str(tmp_path / "0.gguf"))
