"""Any order of arrivals, cancels and steps: no request is lost, repeated or mixed."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
)

from sits.runtime.batch import Batcher, RequestRefused
from sits.runtime.engine import PoolShape
from sits.testing import FakeModel
from sits.wire import ChatPrompt, Emitted, Finished, FromWorker, Generate, Message

SHAPE = PoolShape(sequences=3, sequence_tokens=80, batch_tokens=8)
WORDS = st.text(st.sampled_from("abé😀"), min_size=1, max_size=8)


class BatcherMachine(RuleBasedStateMachine):
    """The model: each request's words, and how much of them was given out."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        model = FakeModel()
        self.engine = model.make_engine(SHAPE)
        self.batcher = Batcher(model, self.engine, lambda: 0, queue_limit=4)
        self.expected: dict[str, str] = {}
        self.seen: dict[str, str] = {}
        self.next_seq: dict[str, int] = {}
        self.count = 0

    @rule(target=requests, words=WORDS)
    def arrive(self, words: str) -> str:
        name = f"r{self.count}"
        self.count += 1
        try:
            self.batcher.submit(Generate(name, ChatPrompt((Message("user", words),))))
        except RequestRefused:
            assert len(self.expected) == SHAPE.sequences + 4
        else:
            self.expected[name], self.seen[name], self.next_seq[name] = words, "", 0
        return name

    @rule(name=consumes(requests))
    def cancel(self, name: str) -> None:
        self.batcher.cancel(name)
        self.expected.pop(name, None)

    @precondition(lambda self: self.batcher.busy)
    @rule(count=st.integers(1, 9))
    def steps(self, count: int) -> None:
        for _ in range(count):
            for event in self.batcher.step():
                self.take(event)

    def take(self, event: FromWorker) -> None:
        assert event.request_id in self.expected, "something came for a request that had ended"
        if isinstance(event, Emitted):
            assert event.piece.seq == self.next_seq[event.request_id]
            self.next_seq[event.request_id] += 1
            self.seen[event.request_id] += event.piece.text
        else:
            assert isinstance(event, Finished)
            words = self.expected.pop(event.request_id)
            assert self.seen[event.request_id] == words
            assert event.usage.completion_tokens == len(words.encode())

    @invariant()
    def what_is_there_is_what_was_asked(self) -> None:
        assert self.batcher.request_ids == set(self.expected)

    def teardown(self) -> None:
        steps = 0
        while self.batcher.busy:
            for event in self.batcher.step():
                self.take(event)
            steps += 1
            assert steps < 1000
        assert not self.expected
        for sequence in range(SHAPE.sequences):
            self.engine.close(sequence)


BatcherMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestBatcher = BatcherMachine.TestCase
