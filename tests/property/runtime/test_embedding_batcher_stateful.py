"""Any order of arrivals, cancels and steps: every answer is of its own inputs, whole, and once."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from sits.runtime.batch import EmbeddingBatcher, RequestRefused
from sits.runtime.engine import EmbeddingShape
from sits.testing import FakeBehaviour, FakeModel
from sits.wire import Embed, Embedded, FromWorker

SHAPE = EmbeddingShape(inputs=3, input_tokens=14, batch_tokens=20)
TEXTS = st.lists(st.text(st.sampled_from("abcé"), min_size=1, max_size=6), min_size=1, max_size=5)


class EmbeddingMachine(RuleBasedStateMachine):
    """The model: the texts of each request that has not been answered."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.model = FakeModel(FakeBehaviour(embedding=True))
        self.batcher = EmbeddingBatcher(
            self.model, self.model.make_embedding_engine(SHAPE), self.tick, queue_limit=4
        )
        self.alone = self.model.make_embedding_engine(SHAPE)
        self.open: dict[str, list[str]] = {}
        self.count = 0
        self.now_us = 0

    def tick(self) -> int:
        self.now_us += 10_000
        return self.now_us

    @rule(target=requests, texts=TEXTS)
    def arrive(self, texts: list[str]) -> str:
        name = f"r{self.count}"
        self.count += 1
        try:
            self.batcher.submit(Embed(name, tuple(texts)))
        except RequestRefused:
            assert len(self.open) == 4  # the limit of the queue
        else:
            self.open[name] = texts
        return name

    @rule(name=consumes(requests))
    def leave(self, name: str) -> None:
        self.batcher.cancel(name)
        self.open.pop(name, None)

    @rule()
    def step(self) -> None:
        for event in self.batcher.step():
            self.check(event)

    def check(self, event: FromWorker) -> None:
        assert isinstance(event, Embedded)
        texts = self.open.pop(event.request_id)
        assert len(event.vectors) == len(texts)
        for text, vector in zip(texts, event.vectors, strict=True):
            tokens = self.model.tokenize(text, parse_special=False, add_special=True)
            assert self.alone.embed([tokens]) == [vector]

    @invariant()
    def nothing_is_kept_or_lost(self) -> None:
        assert self.batcher.request_ids == frozenset(self.open)

    def teardown(self) -> None:
        for _ in range(200):
            self.step()
        assert not self.open


EmbeddingMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestEmbeddingMachine = EmbeddingMachine.TestCase
