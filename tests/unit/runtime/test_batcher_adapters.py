"""What the batcher makes of requests of several sets of adapters, step by step."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from sits.runtime.batch import Batcher, BatchRules
from sits.runtime.engine import AdapterFile, AdapterSet, Feed, PoolShape, Sampled
from sits.testing import FakeEngine, FakeModel, tiny_adapter
from sits.wire import ChatPrompt, Emitted, Failed, Finished, FromWorker, Generate, Message

SHAPE = PoolShape(sequences=4, sequence_tokens=256, batch_tokens=32, cells=600)


class NotingEngine(FakeEngine):
    """A step takes 10 ms and 1 ms more for each token, by its own clock; notes who was fed."""

    def __init__(self, model: FakeModel, shape: PoolShape) -> None:
        super().__init__(model, shape)
        self.now_us = 0
        self.steps: list[dict[str, int]] = []

    def step(self, feeds: Sequence[Feed], threads: int = 1) -> list[Sampled]:
        self.now_us += 10_000 + 1000 * sum(len(feed.tokens) for feed in feeds)
        fed: Counter[str] = Counter()
        for feed in feeds:
            fed[self._adapters[feed.sequence]] += len(feed.tokens)
        self.steps.append(dict(fed))
        return super().step(feeds, threads)


class Bench:
    """A batcher on an engine that has the sets "a" and "b"."""

    def __init__(self, folder: Path, rules: BatchRules | None = None) -> None:
        model = FakeModel()
        self.engine = NotingEngine(model, SHAPE)
        self.digests = {"": ""}
        for name in "ab":
            (folder / name).write_bytes(tiny_adapter(f"[{name}]"))
            adapters = AdapterSet((AdapterFile(str(folder / name), name),))
            self.engine.load_adapters(adapters)
            self.digests[name] = adapters.digest
        self.batcher = Batcher(
            model, self.engine, lambda: self.engine.now_us, rules=rules or BatchRules()
        )

    def ask(self, request_id: str, words: str, adapter: str, unit: str = "unit") -> None:
        prompt = ChatPrompt((Message("user", words),))
        self.batcher.submit(Generate(request_id, prompt), unit, self.digests[adapter])

    def run(self, steps: int = 10_000) -> list[FromWorker]:
        events: list[FromWorker] = []
        while self.batcher.busy and steps:
            events += self.batcher.step()
            steps -= 1
        return events

    def fed(self, adapter: str) -> list[int]:
        """Return the tokens of each step that the set had."""
        digest = self.digests[adapter]
        return [step[digest] for step in self.engine.steps if digest in step]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def text_of(events: list[FromWorker], request_id: str) -> str:
    assert not [event for event in events if isinstance(event, Failed)]
    return "".join(
        e.piece.text for e in events if isinstance(e, Emitted) and e.request_id == request_id
    )


def test_every_request_is_answered_with_its_own_adapter(bench: Bench) -> None:
    for number, adapter in enumerate(("", "a", "b", "a", "")):
        bench.ask(f"r{number}", f"words {number}", adapter)
    events = bench.run()
    assert [text_of(events, f"r{number}") for number in range(5)] == [
        "words 0",
        "[a]words 1",
        "[b]words 2",
        "[a]words 3",
        "words 4",
    ]
    assert all(len(step) == 1 for step in bench.engine.steps)


def test_running_answers_of_two_sets_get_every_other_step(bench: Bench) -> None:
    bench.ask("one", "x" * 20, "")
    bench.ask("two", "y" * 20, "a")
    bench.run(4)
    del bench.engine.steps[:]
    bench.run(10)
    order = [next(iter(step)) for step in bench.engine.steps]
    assert set(order[:2]) == {"", bench.digests["a"]}
    assert order[2:] == order[:-2]


def test_a_long_prompt_of_one_set_does_not_stall_an_answer_of_another(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BatchRules(stall_us=40_000, piece_tokens=1))
    bench.ask("warm-up", "w" * 20, "")  # teaches how long steps take
    bench.run()
    bench.ask("answer", "x" * 60, "")
    bench.run(4)
    bench.ask("prompt", "y" * 200, "a")
    del bench.engine.steps[:]
    times = []
    for _ in range(40):
        events = bench.run(1)
        times += [
            bench.engine.now_us
            for e in events
            if isinstance(e, Emitted) and e.request_id == "answer"
        ]
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert max(waits) <= 40_000
    assert len(bench.fed("a")) >= 18


def test_a_flood_of_one_unit_does_not_keep_another_units_adapter_waiting(bench: Bench) -> None:
    for number in range(12):
        bench.ask(f"flood{number}", "f" * 100, "a", unit="flood")
    bench.run(3)
    bench.ask("one", "z", "b", unit="small")
    before = len(bench.engine.steps)
    events: list[FromWorker] = []
    while not bench.fed("b"):
        events += bench.run(1)
        assert len(bench.engine.steps) - before < 150
    assert text_of(events + bench.run(), "one") == "[b]z"


def test_nothing_that_one_set_computed_is_found_by_another(bench: Bench) -> None:
    words = "common beginning of all prompts"
    for request_id, adapter in (("first", "a"), ("other", "b"), ("plain", ""), ("again", "a")):
        bench.ask(request_id, words, adapter)
        (end,) = [e for e in bench.run() if isinstance(e, Finished)]
        cached = end.usage.cached_tokens
        assert cached == (end.usage.prompt_tokens - 1 if request_id == "again" else 0)


def test_what_was_parked_goes_on_with_its_adapter(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number, adapter in enumerate(("a", "", "b", "a")):
        bench.ask(f"r{number}", str(number) * 120, adapter)
    states = []
    events: list[FromWorker] = []
    while bench.batcher.busy:
        events += bench.batcher.step()
        states.append(len(bench.batcher._scheduler._parked))
    assert max(states) > 0, "nothing was parked: the pool is too large for this test"
    for number, says in enumerate(("[a]", "", "[b]", "[a]")):
        assert text_of(events, f"r{number}") == says + str(number) * 120


def test_an_objective_counts_the_steps_of_other_sets(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.ask("warm-up", "w" * 60, "")
    bench.run()
    bench.batcher.aim("unit", 14.0)  # a step of one stream takes 11 ms, of four 14
    for number in range(3):
        bench.ask(f"r{number}", "x" * 40, "")
    bench.run(12)
    alone = bench.batcher._scheduler._running
    assert len(alone) > 1
    bench.ask("other", "y", "a")
    bench.run(12)
    assert not [each for each in bench.batcher._scheduler._running if each.name == "other"]
