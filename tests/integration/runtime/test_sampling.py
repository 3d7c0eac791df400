"""What samplers promise, on a real model: expected values follow from what they are told."""

import json
from collections.abc import Iterator

import pytest

from sits.runtime.engine import (
    LLAMACPP,
    Feed,
    Model,
    PoolShape,
    Sampled,
    _llama_sampler,
    load_model,
)
from sits.wire import Sampling
from tests.models import smollm2_path

PROMPT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    model = load_model(LLAMACPP, smollm2_path())
    yield model
    model.close()


def answer(
    model: Model, words: str, sampling: Sampling, most: int = 40, history: tuple[int, ...] = ()
) -> list[int]:
    """Return the tokens of an answer, after `history`."""
    engine = model.make_engine(PoolShape(sequences=1, sequence_tokens=512, batch_tokens=256))
    engine.open(0)
    sampler = engine.make_sampler(sampling, history)
    tokens = [*model.tokenize(PROMPT.format(words), parse_special=True), *history]
    start = 0
    found: list[int] = []
    while len(found) < most:
        (drawn,) = engine.step([Feed(0, start, tokens, sampler)])
        if model.is_end(drawn.token):
            break
        start += len(tokens)
        tokens = [drawn.token]
        found.append(drawn.token)
    sampler.close()
    engine.shutdown()
    return found


def first(model: Model, sampling: Sampling) -> Sampled:
    """Return the first token of an answer with all that is told of it."""
    engine = model.make_engine(PoolShape(sequences=1, sequence_tokens=512, batch_tokens=256))
    engine.open(0)
    sampler = engine.make_sampler(sampling)
    tokens = model.tokenize(PROMPT.format("Tell me of the sea."), parse_special=True)
    (drawn,) = engine.step([Feed(0, 0, tokens, sampler)])
    sampler.close()
    engine.shutdown()
    return drawn


def text(model: Model, tokens: list[int]) -> str:
    return b"".join(map(model.token_bytes, tokens)).decode()


@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_a_schema_holds_the_answer(model: Model, temperature: float) -> None:
    sampling = Sampling(temperature=temperature, seed=3, json_schema=json.dumps(PERSON))
    found = json.loads(text(model, answer(model, "Describe a person.", sampling, most=120)))
    assert set(found) == {"name", "age"}
    assert isinstance(found["name"], str)
    assert isinstance(found["age"], int)


def test_a_bias_forbids_and_forces_tokens(model: Model) -> None:
    free = answer(model, "Say hello.", Sampling(temperature=0), most=1)
    barred = Sampling(temperature=0, logit_bias=((free[0], -100.0),))
    assert answer(model, "Say hello.", barred, most=1) != free
    forced = Sampling(temperature=0, logit_bias=((1234, 100.0),))
    assert answer(model, "Say hello.", forced, most=5) == [1234] * 5


def test_penalties_keep_an_answer_from_repeating(model: Model) -> None:
    words = "Repeat the word cat forever."
    repeated = answer(model, words, Sampling(temperature=0))
    varied = answer(model, words, Sampling(temperature=0, frequency_penalty=2, presence_penalty=2))
    assert len(set(varied)) / len(varied) > len(set(repeated)) / len(repeated)


def test_penalties_count_what_was_answered_before(model: Model) -> None:
    sampling = Sampling(temperature=0, presence_penalty=2.0, frequency_penalty=2.0)
    whole = answer(model, "Name some animals.", sampling, most=20)
    rest = answer(model, "Name some animals.", sampling, most=10, history=tuple(whole[:10]))
    assert rest == whole[10:20]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0),
        Sampling(temperature=0, logit_bias=((260, 3.0), (28, -100.0), (29, 1.5))),
        Sampling(temperature=1.3, seed=11),
        Sampling(temperature=2.0, seed=12, min_p=0.01, top_p=0.9),
        Sampling(temperature=0.9, seed=13, min_p=1.0),
        Sampling(temperature=1.1, seed=14, logit_bias=((260, 5.0), (28, -100.0))),
        Sampling(temperature=1.1, seed=15, logit_bias=((260, 5.0),), top_logprobs=2),
    ],
)
def test_what_is_drawn_is_what_the_whole_native_chain_draws(
    model: Model, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = answer(model, "Tell me of the sea.", sampling)
    with monkeypatch.context() as patched:
        patched.setattr(_llama_sampler, "_find_shortcut", lambda _sampling: None)
        whole = answer(model, "Tell me of the sea.", sampling)
    assert short == whole
    assert len(short) == 40


def test_logprobs_are_the_models_own_where_a_token_is_biased(model: Model) -> None:
    plain = first(model, Sampling(temperature=0, top_logprobs=2))
    (best, _), (_, second_logprob) = plain.top
    barred = first(model, Sampling(temperature=0, top_logprobs=2, logit_bias=((best, -100.0),)))
    assert barred.top == plain.top
    assert barred.token == plain.top[1][0]
    assert barred.logprob == second_logprob
