"""What the embedding batcher makes of requests, step by step, on the fake engine."""

import math
import struct

import pytest

from sits.runtime.batch import Batcher, EmbeddingBatcher, RequestRefused
from sits.runtime.engine import EmbeddingShape, PoolShape
from sits.testing import FAKE_DIMENSIONS, FakeBehaviour, FakeEmbeddingEngine, FakeModel
from sits.wire import ChatPrompt, Embed, Embedded, Failed, FromWorker, Generate, Message, Usage

SHAPE = EmbeddingShape(inputs=4, input_tokens=32, batch_tokens=64)
MARKS = 2  # the fake's tokenizer puts one token before and one after an input


class Clock:
    """Moves by `step_us` at each look: the batcher looks before and after a step."""

    def __init__(self, step_us: int) -> None:
        self.now_us = 0
        self.step_us = step_us

    def __call__(self) -> int:
        self.now_us += self.step_us
        return self.now_us


class Bench:
    """A batcher with its engine and its clock."""

    def __init__(
        self,
        shape: EmbeddingShape = SHAPE,
        behaviour: FakeBehaviour | None = None,
        step_us: int = 1,
    ) -> None:
        model = FakeModel(behaviour or FakeBehaviour(embedding=True))
        self.engine: FakeEmbeddingEngine = model.make_embedding_engine(shape)
        self.clock = Clock(step_us)
        self.batcher = EmbeddingBatcher(model, self.engine, self.clock, queue_limit=3)

    def ask(
        self,
        *inputs: str | tuple[int, ...],
        request_id: str = "r",
        dimensions: int | None = None,
    ) -> None:
        self.batcher.submit(Embed(request_id, inputs, dimensions))

    def run(self) -> list[FromWorker]:
        events: list[FromWorker] = []
        while self.batcher.busy:
            events += self.batcher.step()
        return events


def floats(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{FAKE_DIMENSIONS}f", vector)


def test_an_answer_is_one_vector_for_each_input_in_order() -> None:
    bench = Bench()
    bench.ask("a", "bb", "ab")
    (event,) = bench.run()
    assert isinstance(event, Embedded)
    # The byte of `a` is 97, 1 modulo 8; that of `b` 98.
    half = math.sqrt(0.5)
    assert [floats(v) for v in event.vectors] == [
        (0, 1, 0, 0, 0, 0, 0, 0),
        (0, 0, 1, 0, 0, 0, 0, 0),
        pytest.approx((0, half, half, 0, 0, 0, 0, 0)),
    ]
    assert event.usage == Usage(5 + 3 * MARKS, 0)


def test_token_ids_are_taken_as_they_are() -> None:
    bench = Bench()
    bench.ask((97, 97), "a")
    (event,) = bench.run()
    assert isinstance(event, Embedded)
    assert event.vectors[0] == event.vectors[1]
    assert event.usage == Usage(2 + 1 + MARKS, 0)


def test_requests_share_a_batch() -> None:
    bench = Bench()
    bench.ask("a", request_id="one")
    bench.ask("bb", request_id="two")
    events = bench.run()
    assert [e.request_id for e in events] == ["one", "two"]
    assert bench.engine.batches == [[1 + MARKS, 2 + MARKS]]


def test_a_large_request_does_not_hold_up_a_small_one() -> None:
    bench = Bench()
    bench.ask(*["x" * 14] * 100, request_id="large")
    bench.batcher.step()
    bench.ask("a", request_id="small")
    done = [event.request_id for _ in range(2) for event in bench.batcher.step()]
    assert done == ["small"]
    assert [e.request_id for e in bench.run()] == ["large"]


def test_large_requests_take_turns() -> None:
    bench = Bench()
    bench.ask(*["x" * 14] * 10, request_id="one")
    bench.ask(*["y" * 13] * 10, request_id="two")
    bench.batcher.step()
    assert bench.engine.batches[0] == [16, 15, 16, 15]


def test_where_a_step_holds_one_input_requests_take_turns_step_by_step() -> None:
    bench = Bench(EmbeddingShape(inputs=4, input_tokens=32, batch_tokens=32))
    bench.ask(*["x" * 30] * 3, request_id="one")
    bench.ask(*["y" * 29] * 3, request_id="two")
    bench.run()
    assert bench.engine.batches == [[32], [31], [32], [31], [32], [31]]


def test_a_batch_holds_no_more_than_the_engine_takes() -> None:
    bench = Bench()
    bench.ask(*["z" * 30] * 5, *["z"] * 20)
    bench.run()
    assert bench.engine.batches[:2] == [[32, 32], [32, 32]]
    assert all(len(batch) <= SHAPE.inputs for batch in bench.engine.batches)


def test_steps_shrink_to_what_a_slow_machine_does_in_a_tenth_of_a_second() -> None:
    bench = Bench(step_us=400_000)
    bench.ask(*["x" * 6] * 60)
    bench.run()
    sizes = [sum(batch) for batch in bench.engine.batches]
    # 80 tokens a second: no step that is as short as one of a tenth of a second holds two inputs.
    assert sizes[0] == 32
    assert sizes[-1] <= 16


def test_steps_grow_again_on_a_fast_one() -> None:
    shape = EmbeddingShape(inputs=64, input_tokens=32, batch_tokens=256)
    bench = Bench(shape, step_us=1000)
    bench.ask(*["x" * 6] * 200)
    bench.run()
    assert max(sum(batch) for batch in bench.engine.batches) == 256


def test_a_cancelled_request_is_never_computed_and_says_nothing() -> None:
    bench = Bench()
    bench.ask("a" * 20, request_id="gone")
    bench.ask("b", request_id="stays")
    bench.batcher.cancel("gone")
    assert [e.request_id for e in bench.run()] == ["stays"]
    assert bench.engine.batches == [[1 + MARKS]]


def test_a_cancel_acts_in_the_middle() -> None:
    bench = Bench()
    bench.ask(*["x" * 20] * 50)
    bench.batcher.step()
    bench.batcher.cancel("r")
    assert not bench.batcher.busy
    assert len(bench.engine.batches) == 1


def test_too_long_an_input_is_refused_with_both_numbers_before_any_is_computed() -> None:
    bench = Bench()
    bench.ask("fits", "x" * 31)
    (failed,) = bench.run()
    assert isinstance(failed, Failed)
    assert failed.code == "context_length_exceeded"
    assert "input 1 has 33 tokens" in failed.message
    assert "at most 32" in failed.message
    assert bench.engine.batches == []


def test_an_input_of_exactly_the_limit_is_taken() -> None:
    bench = Bench()
    bench.ask("x" * 30, tuple([7] * 32))
    (event,) = bench.run()
    assert isinstance(event, Embedded)


@pytest.mark.parametrize(
    ("inputs", "reason", "message"),
    [
        ((), "invalid_prompt", "no input"),
        (("a", ""), "invalid_prompt", "input 1 is empty"),
        (((),), "invalid_prompt", "input 0 is empty"),
        (("a", (1, 260)), "invalid_prompt", "input 1 has the token 260"),
        (((-1,),), "invalid_prompt", "the token -1"),
        (((1,) * 33,), "context_length_exceeded", "33 tokens"),
        (("x" * 2049,), "context_length_exceeded", "2049 bytes"),
    ],
)
def test_refuses_what_cannot_be_embedded(
    inputs: tuple[str | tuple[int, ...], ...], reason: str, message: str
) -> None:
    bench = Bench()
    with pytest.raises(RequestRefused, match=message) as caught:
        bench.ask(*inputs)
    assert caught.value.reason == reason
    assert not bench.batcher.busy


def test_refuses_more_vectors_than_one_answer_holds() -> None:
    bench = Bench()
    most = 8 * 1024 * 1024 // (4 * FAKE_DIMENSIONS)
    with pytest.raises(RequestRefused, match=f"at most {most}"):
        bench.ask(*["a"] * (most + 1))


def test_refuses_dimensions_that_the_model_does_not_have() -> None:
    bench = Bench()
    bench.ask("a", request_id="same", dimensions=FAKE_DIMENSIONS)
    with pytest.raises(RequestRefused, match="'dimensions' is 4; this model's vectors have 8"):
        bench.ask("a", dimensions=4)


def test_refuses_a_request_too_many_and_an_id_in_use() -> None:
    bench = Bench()
    bench.ask("a", request_id="1")
    with pytest.raises(RequestRefused, match="in use"):
        bench.ask("a", request_id="1")
    bench.ask("a", request_id="2")
    bench.ask("a", request_id="3")
    with pytest.raises(RequestRefused) as caught:
        bench.ask("a", request_id="4")
    assert (caught.value.reason, caught.value.may_retry) == ("overloaded", True)


def test_each_kind_of_model_refuses_the_others_requests_and_says_what_to_call() -> None:
    generate = Generate("g", ChatPrompt((Message("user", "hello"),)))
    with pytest.raises(RequestRefused, match="/v1/embeddings") as caught:
        Bench().batcher.submit(generate)
    assert caught.value.reason == "wrong_endpoint"
    model = FakeModel()
    batcher = Batcher(model, model.make_engine(PoolShape()), lambda: 0)
    with pytest.raises(RequestRefused, match="/v1/chat/completions"):
        batcher.submit(Embed("e", ("a",)))


def test_when_the_engine_fails_the_requests_of_that_batch_fail() -> None:
    bench = Bench(behaviour=FakeBehaviour(embedding=True, step_error="it broke"))
    bench.ask("a", "b", request_id="one")
    bench.ask("c", request_id="two")
    events = bench.run()
    assert {(e.request_id, e.code) for e in events if isinstance(e, Failed)} == {
        ("one", "engine_error"),
        ("two", "engine_error"),
    }
    assert len(events) == 2
