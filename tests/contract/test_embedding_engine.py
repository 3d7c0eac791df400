"""What every embedding engine owes. The fake runs the same suite as llama.cpp."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.runtime.engine import (
    LLAMACPP,
    EmbeddingEngine,
    EmbeddingShape,
    EngineError,
    Model,
    ModelLoadError,
    PoolShape,
    load_model,
)
from sits.wire import UnitKind
from tests.models import smollm2_path
from tests.tiny_bert import CLS, LONGEST, SEP, WIDTH, WORDS, TinyBert

SHAPE = EmbeddingShape(inputs=3, input_tokens=16, batch_tokens=24)
ENGINES = {"fake": "sits.testing:load_fake_embedding", "llamacpp": LLAMACPP}


@pytest.fixture(scope="module", params=ENGINES)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    path = "unused"
    if request.param == "llamacpp":
        path = TinyBert().write(tmp_path_factory.mktemp("bert") / "mean.gguf", pooling=1)
    model = load_model(ENGINES[request.param], path)
    yield model
    model.close()


@pytest.fixture
def engine(model: Model) -> Iterator[EmbeddingEngine]:
    engine = model.make_embedding_engine(SHAPE)
    yield engine
    engine.shutdown()


def tokens_of(model: Model, text: str) -> list[int]:
    return model.tokenize(text, parse_special=False, add_special=True)


def floats(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def test_says_that_it_makes_vectors_and_how_long_they_are(
    model: Model, engine: EmbeddingEngine
) -> None:
    assert model.info.kind is UnitKind.EMBEDDING
    assert model.info.embedding is not None
    (vector,) = engine.embed([tokens_of(model, "the cat")])
    assert len(floats(vector)) == model.info.embedding.dimensions


def test_vectors_have_the_length_one(model: Model, engine: EmbeddingEngine) -> None:
    for vector in engine.embed([tokens_of(model, text) for text in ("the", "cat", "the mat")]):
        assert math.hypot(*floats(vector)) == pytest.approx(1.0, abs=1e-6)


def test_a_vector_is_of_its_input_alone_and_in_its_place(
    model: Model, engine: EmbeddingEngine
) -> None:
    inputs = [tokens_of(model, text) for text in ("the cat", "mat", "sat")]
    together = engine.embed(inputs)
    for tokens, vector in zip(inputs, together, strict=True):
        (alone,) = engine.embed([tokens])
        assert floats(alone) == pytest.approx(floats(vector), abs=1e-5)
    assert len(set(together)) == 3


def test_the_models_own_tokens_stand_around_an_input(model: Model) -> None:
    plain = model.tokenize("the cat", parse_special=False)
    first, *middle, last = tokens_of(model, "the cat")
    assert middle == plain
    assert {first, last}.isdisjoint(plain)


def test_a_callers_words_never_become_control_tokens(model: Model) -> None:
    controls = {token for text in ("", " ") for token in tokens_of(model, text)}
    for text in model.info.control_texts:
        assert controls.isdisjoint(model.tokenize(text, parse_special=False))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "no inputs"),
        ([[4], []], "input 1 has no tokens"),
        ([[4]] * 4, "4 inputs in one batch; at most 3"),
        ([[4] * 17], "input 0 has 17 tokens; at most 16"),
        ([[4] * 16, [4] * 16], "32 tokens in one batch; at most 24"),
        ([[4], [-1]], "vocabulary"),
        ([[10**6]], "vocabulary"),
    ],
)
def test_refuses_a_batch_that_would_break_the_engine(
    model: Model, engine: EmbeddingEngine, inputs: list[list[int]], message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        engine.embed(inputs)
    assert len(engine.embed([tokens_of(model, "the cat")])) == 1


def test_makes_no_engine_for_text(model: Model) -> None:
    with pytest.raises(EngineError, match="vectors and no text"):
        model.make_engine(PoolShape())


@pytest.mark.parametrize(("pooling", "pool_cls"), [(1, False), (2, True), (None, False)])
def test_vectors_are_those_of_the_models_arithmetic(
    tmp_path: Path, pooling: int | None, pool_cls: bool
) -> None:
    bert = TinyBert()
    model = load_model(LLAMACPP, bert.write(tmp_path / "bert.gguf", pooling))
    engine = model.make_embedding_engine(SHAPE)
    inputs = [
        [CLS, *map(WORDS.index, words), SEP]
        for words in (["the", "cat", "##s", "sat"], ["on", "the", "mat", "."], ["!"])
    ]
    for tokens, vector in zip(inputs, engine.embed(inputs), strict=True):
        assert floats(vector) == pytest.approx(bert.embed(tokens, pool_cls=pool_cls), abs=2e-3)
    engine.shutdown()
    model.close()


def test_reads_a_berts_words_as_its_vocabulary_has_them(tmp_path: Path) -> None:
    model = load_model(LLAMACPP, TinyBert().write(tmp_path / "bert.gguf", pooling=1))
    assert [WORDS[token] for token in tokens_of(model, "The cats sat. [SEP]!")] == (
        ["[CLS]", "the", "cat", "##s", "sat", ".", "[UNK]", "[UNK]", "[UNK]", "!", "[SEP]"]
    )
    assert model.info.trained_context_tokens == LONGEST
    assert model.info.embedding is not None
    assert model.info.embedding.dimensions == WIDTH
    model.close()


def test_a_reranker_is_refused_since_scores_are_no_vectors(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="reranker"):
        load_model(LLAMACPP, TinyBert().write(tmp_path / "rank.gguf", pooling=4))


def test_a_model_that_generates_makes_no_vectors() -> None:
    model = load_model(LLAMACPP, smollm2_path())
    assert model.info.kind is UnitKind.CHAT
    with pytest.raises(EngineError, match="generates text"):
        model.make_embedding_engine(SHAPE)
    model.close()
