"""What samplers promise, on a real model: expected values follow from what they are told."""

import json
from collections.abc import Iterator

import pytest

from sits.runtime.engine import LLAMACPP, Feed, Model, PoolShape, load_model
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
