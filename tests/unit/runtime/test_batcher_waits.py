"""Who waits for a prompt that is being computed, and who does not."""

from sits.runtime.batch import Batcher, make_pool
from sits.runtime.engine import PoolShape
from sits.testing import FakeBehaviour, FakeModel
from sits.wire import Finished, FromWorker
from tests.batchers import MARKS, SHARED, TimedEngine, ask, make_timed, run, text_of

PREFIX = "p" * 100
WIDE = PoolShape(sequences=3, sequence_tokens=512, batch_tokens=64)


def cached(events: list[FromWorker]) -> dict[str, int]:
    """Return how many tokens of its prompt each request was given."""
    return {e.request_id: e.usage.cached_tokens for e in events if isinstance(e, Finished)}


def test_what_arrives_together_and_begins_alike_is_computed_once() -> None:
    batcher, engine = make_timed(WIDE)
    for name in "abc":
        batcher.submit(ask(PREFIX + name, name))
    events = run(batcher)
    assert {name: text_of(events, name) for name in "abc"} == {n: PREFIX + n for n in "abc"}
    shared = SHARED + len(PREFIX)
    assert cached(events) == {"a": 0, "b": shared, "c": shared}
    # The first alone, until all that the others have of it is there; what is left of each is
    # its own letter and two marks.
    assert engine.steps[:3] == [[64], [shared + 3 - 64], [1, 3, 3]]


def test_others_go_on_while_one_waits_for_a_prompt() -> None:
    batcher, engine = make_timed(PoolShape(sequences=3, sequence_tokens=512, batch_tokens=128))
    batcher.submit(ask(PREFIX + "a", "a"))
    batcher.submit(ask(PREFIX + "b", "b"))
    batcher.submit(ask("another", "c"))
    events = run(batcher)
    assert engine.steps[0] == [SHARED + len(PREFIX) + 3, len("another") + MARKS]
    assert cached(events)["b"] == SHARED + len(PREFIX)


def test_when_who_computes_a_prompt_leaves_the_next_one_does() -> None:
    batcher, engine = make_timed(WIDE)
    for name in "abc":
        batcher.submit(ask(PREFIX + name, name))
    batcher.step()
    batcher.cancel("a")
    engine.steps.clear()
    events = run(batcher)
    # What the first had computed is kept.
    assert cached(events) == {"b": 64, "c": SHARED + len(PREFIX)}
    assert text_of(events, "c") == PREFIX + "c"


def test_when_the_engine_fails_whoever_waited_computes_it() -> None:
    model = FakeModel(FakeBehaviour(step_error="it broke"))
    engine = TimedEngine(model, WIDE)
    batcher = Batcher(model, engine, lambda: engine.now_us)
    for name in "abc":
        batcher.submit(ask(PREFIX + name, name))
    failed = [[e.request_id for e in batcher.step()] for _ in range(3)]
    assert failed == [["a"], ["b"], ["c"]]
    assert not batcher.busy


def test_nobody_waits_for_who_came_later() -> None:
    model = FakeModel()
    engine = TimedEngine(model, PoolShape(sequences=2, sequence_tokens=512, batch_tokens=64))
    pool = make_pool(model, engine, lambda: engine.now_us)
    batcher = Batcher(model, engine, lambda: engine.now_us, pool=pool)
    batcher.submit(ask("12345", "a"), "greedy")
    batcher.submit(ask("1234567", "b"), "greedy")
    batcher.submit(ask(PREFIX * 3 + "c", "c"), "greedy")
    batcher.submit(ask(PREFIX * 3 + "d", "d"), "modest")
    while "b" in batcher.request_ids:
        batcher.step()
    assert "a" not in batcher.request_ids  # so the modest unit's has begun, out of turn
    batcher.step()
    assert pool.running == 2
    assert engine.steps[-1] == [64]  # and goes on; what it computes the other has as well
    assert cached(run(batcher))["c"] < SHARED + 3 * len(PREFIX)


def test_prompts_that_have_little_in_common_wait_for_nobody() -> None:
    batcher, engine = make_timed(WIDE)
    for name in "abc":
        batcher.submit(ask("p" * 14 + name, name))
    batcher.step()
    assert len(engine.steps[0]) == 3
