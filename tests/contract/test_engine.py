"""What every engine owes. The fake runs the same suite as llama.cpp with a real model."""

from collections.abc import Iterator

import pytest

from sits.runtime.engine import LLAMACPP, Engine, EngineError, Feed, Model, PoolShape, load_model
from sits.wire import Sampling
from tests.models import smollm2_path

GREEDY = Sampling(temperature=0)
SHAPE = PoolShape(sequences=3, sequence_tokens=128, batch_tokens=32)
ENGINES = {"fake": "sits.testing:load_fake", "llamacpp": LLAMACPP}


@pytest.fixture(scope="module", params=ENGINES)
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    path = smollm2_path() if request.param == "llamacpp" else "unused"
    model = load_model(ENGINES[request.param], path)
    yield model
    model.close()


@pytest.fixture
def engine(model: Model) -> Iterator[Engine]:
    engine = model.make_engine(SHAPE)
    yield engine
    engine.shutdown()


def prompt(model: Model, words: str) -> list[int]:
    start, end = {
        True: ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
        False: ("<|user|>", "<|end|><|assistant|>"),
    }["<|im_start|>" in model.info.control_texts]
    return model.tokenize(start + words + end, parse_special=True)


def generate(
    model: Model, engine: Engine, sequence: int, tokens: list[int], sampling: Sampling = GREEDY
) -> bytes:
    """Run one sequence alone until its end, or 24 tokens."""
    engine.open(sequence, sampling)
    position, answer = 0, b""
    for _ in range(24):
        sampled = []
        while tokens:
            piece, tokens = tokens[: SHAPE.batch_tokens], tokens[SHAPE.batch_tokens :]
            sampled = engine.step([Feed(sequence, position, piece, not tokens)])
            position += len(piece)
        if model.is_end(sampled[0]):
            break
        answer += model.token_bytes(sampled[0])
        tokens = sampled
    engine.close(sequence)
    return answer


@pytest.mark.parametrize("text", ["", "Hello, world", "  two  spaces\n", "naïve – 😀 東京"])
def test_tokens_give_back_their_text(model: Model, text: str) -> None:
    tokens = model.tokenize(text, parse_special=False)
    assert b"".join(map(model.token_bytes, tokens)).decode() == text


def test_control_text_is_one_token_only_where_asked(model: Model) -> None:
    for text in model.info.control_texts:
        assert len(model.tokenize(text, parse_special=True)) == 1
        plain = model.tokenize(text, parse_special=False)
        assert b"".join(map(model.token_bytes, plain)).decode() == text


def test_control_tokens_have_no_bytes(model: Model) -> None:
    (end,) = model.tokenize(model.info.eos_text, parse_special=True)
    assert model.is_end(end)
    assert model.token_bytes(end) == b""


def test_greedy_answers_repeat_and_differ_by_prompt(model: Model, engine: Engine) -> None:
    first = generate(model, engine, 0, prompt(model, "Say hello."))
    assert first
    assert generate(model, engine, 2, prompt(model, "Say hello.")) == first
    assert generate(model, engine, 0, prompt(model, "Count to three.")) != first


def test_the_same_seed_draws_the_same_answer(model: Model, engine: Engine) -> None:
    drawn = Sampling(temperature=1.0, top_p=1.0, min_p=0.0, seed=7)
    words = prompt(model, "Tell me a story.")
    assert generate(model, engine, 0, words, drawn) == generate(model, engine, 1, words, drawn)


def test_closed_sequences_leave_nothing_behind(model: Model, engine: Engine) -> None:
    words = prompt(model, "What is the capital of France?")
    before = generate(model, engine, 1, words)
    engine.open(0, GREEDY)
    engine.step([Feed(0, 0, prompt(model, "Something else."), False)])
    engine.close(0)
    engine.close(0)
    assert generate(model, engine, 1, words) == before


def test_one_batch_feeds_several_sequences(model: Model, engine: Engine) -> None:
    one, two = prompt(model, "Hi"), prompt(model, "Yes")
    engine.open(0, GREEDY)
    engine.open(1, GREEDY)
    both = engine.step([Feed(0, 0, one, True), Feed(1, 0, two, True)])
    assert len(both) == 2
    assert engine.step([Feed(1, len(two), both[1:], False)]) == []


def test_long_prompts_go_in_by_pieces(model: Model, engine: Engine) -> None:
    words = prompt(model, "one two three four five six seven eight " * 2)
    assert len(words) > SHAPE.batch_tokens - 8
    assert generate(model, engine, 0, words)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ([], "no feeds"),
        ([Feed(0, 0, [], True)], "no tokens"),
        ([Feed(1, 0, [1], True)], "not open"),
        ([Feed(99, 0, [1], True)], "not open"),
        ([Feed(0, 1, [1], True)], "starts at 1"),
        ([Feed(0, 0, [-1], True)], "vocabulary"),
        ([Feed(0, 0, [10**6], True)], "vocabulary"),
        ([Feed(0, 0, [1], True), Feed(0, 1, [1], True)], "twice"),
        ([Feed(0, 0, [1] * 33, True)], "at most 32"),
    ],
)
def test_refuses_a_step_that_would_break_the_engine(
    model: Model, engine: Engine, feeds: list[Feed], message: str
) -> None:
    engine.open(0, GREEDY)
    with pytest.raises(EngineError, match=message):
        engine.step(feeds)
    engine.close(0)
    assert generate(model, engine, 0, prompt(model, "Still here?"))


def test_refuses_a_sequence_longer_than_the_pool_gives(engine: Engine) -> None:
    engine.open(0, GREEDY)
    for start in range(0, 128, 32):
        engine.step([Feed(0, start, [5] * 32, False)])
    with pytest.raises(EngineError, match="at most 128"):
        engine.step([Feed(0, 128, [5], True)])


def test_refuses_to_open_what_is_open_or_not_there(engine: Engine) -> None:
    engine.open(0, GREEDY)
    with pytest.raises(EngineError, match="open already"):
        engine.open(0, GREEDY)
    with pytest.raises(EngineError, match="0 to 2"):
        engine.open(3, GREEDY)


def test_refuses_a_token_outside_the_vocabulary(model: Model) -> None:
    with pytest.raises(EngineError, match="vocabulary"):
        model.token_bytes(model.info.vocabulary_tokens)
