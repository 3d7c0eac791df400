"""What every engine owes. The fake runs the same suite as llama.cpp with a real model."""

import math
from collections.abc import Iterator

import pytest

from sits.runtime.engine import (
    LLAMACPP,
    Engine,
    EngineError,
    Feed,
    Model,
    PoolShape,
    Sampled,
    load_model,
)
from sits.wire import Sampling
from tests.models import smollm2_path

GREEDY = Sampling(temperature=0)
SHAPE = PoolShape(sequences=3, sequence_tokens=128, batch_tokens=32, kept=0)
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
    engine.open(sequence)
    sampler = engine.make_sampler(sampling)
    position, answer = 0, b""
    for _ in range(24):
        sampled = []
        while tokens:
            piece, tokens = tokens[: SHAPE.batch_tokens], tokens[SHAPE.batch_tokens :]
            drawn = engine.step([Feed(sequence, position, piece, None if tokens else sampler)])
            sampled = [each.token for each in drawn]
            position += len(piece)
        if model.is_end(sampled[0]):
            break
        answer += model.token_bytes(sampled[0])
        tokens = sampled
    sampler.close()
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
    engine.open(0)
    engine.step([Feed(0, 0, prompt(model, "Something else."))])
    engine.close(0)
    engine.close(0)
    assert generate(model, engine, 1, words) == before


def test_one_batch_feeds_several_sequences(model: Model, engine: Engine) -> None:
    one, two = prompt(model, "Hi"), prompt(model, "Yes")
    engine.open(0)
    engine.open(1)
    sampler = engine.make_sampler(GREEDY)
    both = engine.step([Feed(0, 0, one, sampler), Feed(1, 0, two, sampler)])
    assert len(both) == 2
    assert engine.step([Feed(1, len(two), [both[1].token])]) == []
    sampler.close()


def test_long_prompts_go_in_by_pieces(model: Model, engine: Engine) -> None:
    words = prompt(model, "one two three four five six seven eight " * 2)
    assert len(words) > SHAPE.batch_tokens - 8
    assert generate(model, engine, 0, words)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ([], "no feeds"),
        ([Feed(0, 0, [])], "no tokens"),
        ([Feed(1, 0, [1])], "not open"),
        ([Feed(99, 0, [1])], "not open"),
        ([Feed(0, 1, [1])], "starts at 1"),
        ([Feed(0, 0, [-1])], "vocabulary"),
        ([Feed(0, 0, [10**6])], "vocabulary"),
        ([Feed(0, 0, [1]), Feed(0, 1, [1])], "twice"),
        ([Feed(0, 0, [1] * 33)], "at most 32"),
    ],
)
def test_refuses_a_step_that_would_break_the_engine(
    model: Model, engine: Engine, feeds: list[Feed], message: str
) -> None:
    engine.open(0)
    with pytest.raises(EngineError, match=message):
        engine.step(feeds)
    engine.close(0)
    assert generate(model, engine, 0, prompt(model, "Still here?"))


def test_refuses_a_sequence_longer_than_the_pool_gives(engine: Engine) -> None:
    engine.open(0)
    for start in range(0, 128, 32):
        engine.step([Feed(0, start, [5] * 32)])
    with pytest.raises(EngineError, match="at most 128"):
        engine.step([Feed(0, 128, [5])])


def test_refuses_to_open_what_is_open_or_not_there(engine: Engine) -> None:
    engine.open(0)
    with pytest.raises(EngineError, match="open already"):
        engine.open(0)
    with pytest.raises(EngineError, match="0 to 2"):
        engine.open(3)


def test_refuses_a_token_outside_the_vocabulary(model: Model) -> None:
    with pytest.raises(EngineError, match="vocabulary"):
        model.token_bytes(model.info.vocabulary_tokens)


POOL = PoolShape(sequences=2, sequence_tokens=128, batch_tokens=32, kept=2, cells=200)


@pytest.fixture
def pool(model: Model) -> Iterator[Engine]:
    engine = model.make_engine(POOL)
    yield engine
    engine.shutdown()


def feed(engine: Engine, sequence: int, tokens: list[int], start: int = 0) -> None:
    """Feed tokens in pieces, drawing none."""
    for at in range(0, len(tokens), POOL.batch_tokens):
        engine.step([Feed(sequence, start + at, tokens[at : at + POOL.batch_tokens])])


def next_logprobs(engine: Engine, sequence: int, start: int, tokens: list[int]) -> Sampled:
    """Feed tokens in one step and return the next token with ten logprobs, exact to the bit."""
    sampler = engine.make_sampler(Sampling(temperature=0, top_logprobs=10))
    (drawn,) = engine.step([Feed(sequence, start, tokens, sampler)])
    sampler.close()
    return drawn


def test_a_copy_shares_cells_and_goes_on_bit_identically(model: Model, pool: Engine) -> None:
    words = prompt(model, "one two three four five six seven eight nine ten")
    head, tail = words[:-4], words[-4:]
    for sequence in range(3):
        pool.open(sequence)
    feed(pool, 0, head)
    assert pool.free_cells == POOL.room - len(head)
    pool.copy(0, 1, len(head))
    pool.copy(1, 2, len(head) - 3)
    assert pool.free_cells == POOL.room - len(head)
    whole = next_logprobs(pool, 0, len(head), tail)
    assert next_logprobs(pool, 1, len(head), tail) == whole
    assert pool.free_cells == POOL.room - len(head) - 2 * len(tail)
    pool.close(0)
    pool.close(1)
    assert pool.free_cells == POOL.room - (len(head) - 3)
    pool.close(2)
    assert pool.free_cells == POOL.room


def test_a_state_is_taken_out_and_put_back_bit_identically(model: Model, pool: Engine) -> None:
    words = prompt(model, "one two three four five six seven eight nine ten")
    head, tail = words[:-4], words[-4:]
    pool.open(0)
    feed(pool, 0, head)
    state = pool.export(0)
    whole = next_logprobs(pool, 0, len(head), tail)
    pool.close(0)
    pool.open(3)
    pool.restore(3, len(head), state)
    assert pool.free_cells == POOL.room - len(head)
    assert next_logprobs(pool, 3, len(head), tail) == whole


def test_refuses_states_that_are_broken_or_of_another_length(model: Model, pool: Engine) -> None:
    words = prompt(model, "one two three four")
    pool.open(0)
    feed(pool, 0, words)
    state = pool.export(0)
    pool.open(1)
    for tokens, given in ((len(words), state[:-9]), (len(words) - 1, state), (len(words), b"")):
        with pytest.raises(EngineError):
            pool.restore(1, tokens, given)
        assert pool.free_cells == POOL.room - len(words)
    pool.restore(1, len(words), state)
    with pytest.raises(EngineError, match="tokens already"):
        pool.restore(1, len(words), state)


def test_refuses_more_tokens_than_there_are_cells(model: Model, pool: Engine) -> None:
    pool.open(0)
    pool.open(1)
    feed(pool, 0, [5] * 128)
    feed(pool, 1, [5] * 64)
    with pytest.raises(EngineError, match="8 free cells of 200"):
        pool.step([Feed(1, 64, [5] * 9)])
    feed(pool, 1, [5] * 8, 64)
    pool.close(0)
    feed(pool, 1, [5] * 32, 72)


def test_every_cell_is_usable_again_however_sequences_came_and_went(
    model: Model, pool: Engine
) -> None:
    lengths = [40, 17, 60, 83]
    for turn in range(4):
        for sequence, length in enumerate(lengths):
            pool.open(sequence)
            feed(pool, sequence, [7 + turn] * length)
        pool.close(turn % 4)
        pool.open(turn % 4)
        feed(pool, turn % 4, [9] * pool.free_cells)
        assert pool.free_cells == 0
        for sequence in range(4):
            pool.close(sequence)
        assert pool.free_cells == POOL.room
        lengths = lengths[1:] + lengths[:1]


def test_refuses_copies_that_cannot_be(model: Model, pool: Engine) -> None:
    pool.open(0)
    pool.open(1)
    feed(pool, 0, [5] * 8)
    for source, target, tokens, message in (
        (0, 1, 9, "give 1 to 8"),
        (0, 1, 0, "give 1 to 8"),
        (0, 2, 4, "not open"),
        (2, 1, 4, "not open"),
        (0, 0, 4, "tokens already"),
    ):
        with pytest.raises(EngineError, match=message):
            pool.copy(source, target, tokens)


def test_logprobs_are_of_a_distribution_and_the_greedy_token_is_its_best(
    model: Model, pool: Engine
) -> None:
    pool.open(0)
    drawn = next_logprobs(pool, 0, 0, prompt(model, "Hi")[:32])
    assert drawn.logprob is not None
    assert drawn.top[0] == (drawn.token, drawn.logprob)
    values = [logprob for _, logprob in drawn.top]
    assert values == sorted(values, reverse=True)
    assert sum(map(math.exp, values)) <= 1 + 1e-6


def test_threads_do_not_change_the_result(model: Model, pool: Engine) -> None:
    words = prompt(model, "Hi")
    pool.open(0)
    pool.open(1)
    sampler = pool.make_sampler(Sampling(temperature=0, top_logprobs=5))
    one = pool.step([Feed(0, 0, words, sampler)], threads=1)
    two = pool.step([Feed(1, 0, words, sampler)], threads=2)
    assert one == two


def test_a_schema_that_makes_no_grammar_is_refused(model: Model, pool: Engine) -> None:
    with pytest.raises(EngineError, match="JSON Schema makes no grammar"):
        pool.make_sampler(Sampling(json_schema="{"))


def test_a_bias_for_no_token_is_refused(model: Model, pool: Engine) -> None:
    with pytest.raises(EngineError, match="vocabulary"):
        pool.make_sampler(Sampling(logit_bias=((-1, 1.0),)))


def test_a_state_is_put_back_into_cells_that_lie_apart(model: Model, pool: Engine) -> None:
    words = prompt(model, "one two three four five six seven eight")
    pool.open(0)
    feed(pool, 0, words)
    whole = next_logprobs(pool, 0, len(words), [5])
    pool.close(0)
    pool.open(0)
    feed(pool, 0, words)
    state = pool.export(0)
    pool.close(0)
    for turn in range(0, 96, 8):  # two sequences take turns, so that one leaves gaps
        for sequence in (0, 1):
            if turn == 0:
                pool.open(sequence)
            pool.step([Feed(sequence, turn, [9] * 8)])
    pool.close(0)
    assert pool.free_cells < POOL.room - len(words)
    pool.open(2)
    pool.restore(2, len(words), state)
    again = next_logprobs(pool, 2, len(words), [5])
    assert again.token == whole.token
    assert again.logprob == pytest.approx(whole.logprob, abs=0.05)
