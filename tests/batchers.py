"""A batcher on the fake engine, with a clock that only steps move on."""

from collections.abc import Sequence

from sits.runtime.batch import Batcher, BatchRules
from sits.runtime.engine import Feed, PoolShape, Sampled
from sits.testing import FakeEngine, FakeModel
from sits.wire import ChatPrompt, Emitted, FromWorker, Generate, Message

SHAPE = PoolShape(sequences=2, sequence_tokens=64, batch_tokens=16)
MARKS = 3  # the fake's template puts a turn's two marks and the answer's one around the words
SHARED = 1  # the first of them, which every prompt begins with


class TimedEngine(FakeEngine):
    """Takes 1 ms for each step, by a clock of its own, and notes what it was fed."""

    def __init__(self, model: FakeModel, shape: PoolShape) -> None:
        super().__init__(model, shape)
        self.now_us = 0
        self.steps: list[list[int]] = []

    def step(self, feeds: Sequence[Feed], threads: int = 1) -> list[Sampled]:
        self.now_us += 1000
        self.steps.append([len(feed.tokens) for feed in feeds])
        return super().step(feeds, threads)


def make_timed(
    shape: PoolShape = SHAPE, rules: BatchRules | None = None
) -> tuple[Batcher, TimedEngine]:
    model = FakeModel()
    engine = TimedEngine(model, shape)
    return Batcher(model, engine, lambda: engine.now_us, rules=rules or BatchRules()), engine


def ask(
    words: str, request_id: str = "r", max_tokens: int | None = None, stop: str = ""
) -> Generate:
    prompt = ChatPrompt((Message("user", words),))
    return Generate(request_id, prompt, stop=(stop,) if stop else (), max_tokens=max_tokens)


def run(batcher: Batcher) -> list[FromWorker]:
    events: list[FromWorker] = []
    while batcher.busy:
        events += batcher.step()
    return events


def text_of(events: list[FromWorker], request_id: str = "r") -> str:
    return "".join(
        e.piece.text for e in events if isinstance(e, Emitted) and e.request_id == request_id
    )
