"""Any order of arrivals, cancels, steps and deadlines, in a pool that is too small for all.

No request is lost, repeated or mixed, not between sets of adapters either; no cell is leaked; what
is shared is never changed; no answer that runs waits longer than a round of all sets; whoever waits
for whom, somebody always goes on.
"""

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

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

from sits.runtime.batch import Batcher, BatchRules, RequestRefused
from sits.runtime.engine import AdapterFile, AdapterSet, Feed, PoolShape, Sampled
from sits.runtime.kv import KvPool, Shelf
from sits.testing import FakeEngine, FakeModel, tiny_adapter
from sits.wire import ChatPrompt, Emitted, Failed, Finished, FromWorker, Generate, Message

SHAPE = PoolShape(sequences=3, sequence_tokens=112, batch_tokens=8, kept=2, cells=130)
# Long ones begin alike, so that they share, and end unlike.
WORDS = st.builds(
    lambda head, tail: "common beginning"[:head] + tail,
    st.integers(0, 16),
    st.text(st.sampled_from("abé😀"), min_size=1, max_size=8),
)
UNITS = st.sampled_from(["one", "two"])
# What each set of adapters says before an answer, and the set: the first is the model alone.
SAYS = ("", "<a>", "é<b>")


@cache
def adapter_sets() -> tuple[AdapterSet, ...]:
    folder = Path(tempfile.mkdtemp(prefix="sits-adapters-"))
    atexit.register(shutil.rmtree, folder)
    made = [AdapterSet()]
    for words in SAYS[1:]:
        path = folder / f"{len(made)}.gguf"
        path.write_bytes(tiny_adapter(words))
        made.append(AdapterSet((AdapterFile(str(path), words),)))
    return tuple(made)


class BatcherMachine(RuleBasedStateMachine):
    """The model: each request's words, and how much of them was given out."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        model = FakeModel()
        self.engine = model.make_engine(SHAPE)
        for adapters in adapter_sets():
            self.engine.load_adapters(adapters)
        self.now_us = 0
        shelf = Shelf(2000)
        self.pool = KvPool(self.engine, True, lambda: self.now_us, shelf)
        # A long prompt waits for its turn after each piece, and who begins alike for its prefix.
        rules = BatchRules(queue_limit=4, stall_us=1, piece_tokens=6, wait_tokens=3)
        self.batcher = Batcher(model, self.engine, lambda: self.now_us, pool=self.pool, rules=rules)
        self.engine_steps = 0
        self.engine.step = self.count_step  # type: ignore[method-assign]
        self.expected: dict[str, str] = {}
        self.seen: dict[str, str] = {}
        self.next_seq: dict[str, int] = {}
        self.waited: dict[str, int] = {}
        self.count = 0

    def count_step(self, feeds: Sequence[Feed], threads: int = 1) -> list[Sampled]:
        self.engine_steps += 1
        self.now_us += 1000
        return FakeEngine.step(self.engine, feeds, threads)

    @rule(
        target=requests,
        words=WORDS,
        unit=UNITS,
        limited=st.booleans(),
        done=st.integers(0, 3),
        which=st.integers(0, len(SAYS) - 1),
    )
    def arrive(self, words: str, unit: str, limited: bool, done: int, which: int) -> str:
        name = f"r{self.count}"
        self.count += 1
        try:
            answer = SAYS[which] + words
            data = answer.encode()
            done = min(done, len(data))
            self.batcher.submit(
                Generate(
                    name,
                    ChatPrompt((Message("user", words),)),
                    timeout_ms=20 if limited else None,
                    accepted=tuple(data[:done]),
                    next_seq=done,
                ),
                unit,
                adapter_sets()[which].digest,
            )
        except RequestRefused:
            assert len(self.expected) == SHAPE.sequences + 4
        else:
            shown = data[:done].decode("utf-8", "ignore")
            self.expected[name], self.seen[name], self.next_seq[name] = answer, shown, done
        return name

    @rule(name=consumes(requests))
    def cancel(self, name: str) -> None:
        self.batcher.cancel(name)
        self.expected.pop(name, None)

    @precondition(lambda self: self.batcher.busy)
    @rule(count=st.integers(1, 9))
    def steps(self, count: int) -> None:
        for _ in range(count):
            before = self.answers()
            self.step()
            now = self.answers()
            still = {name for name in before.keys() & now.keys() if before[name] == now[name]}
            self.waited = {name: self.waited.get(name, 0) + 1 for name in still}
            # In a round each set has a step, and prompts of sets without answers one more.
            assert max(self.waited.values(), default=0) <= len(SAYS)

    def step(self) -> None:
        """Step once: something goes on, unless all had ended."""
        before = self.engine_steps
        events = self.batcher.step()
        for event in events:
            self.take(event)
        if self.expected:
            assert events or self.engine_steps > before, "everybody waits"

    def answers(self) -> dict[str, int]:
        """Return how many tokens each answer that runs has."""
        running = self.batcher._scheduler._running
        return {each.name: each.generated_tokens for each in running if each.decoding}

    def take(self, event: FromWorker) -> None:
        assert event.request_id in self.expected, "something came for a request that had ended"
        if isinstance(event, Emitted):
            assert event.piece.seq == self.next_seq[event.request_id]
            self.next_seq[event.request_id] += 1
            self.seen[event.request_id] += event.piece.text
        elif isinstance(event, Failed):
            assert event.code == "deadline_exceeded"
            assert self.expected.pop(event.request_id).startswith(self.seen[event.request_id])
        else:
            assert isinstance(event, Finished)
            words = self.expected.pop(event.request_id)
            assert self.seen[event.request_id] == words
            assert event.usage.completion_tokens == len(words.encode())

    @invariant()
    def what_is_there_is_what_was_asked(self) -> None:
        assert self.batcher.request_ids == set(self.expected)

    @invariant()
    def the_pool_keeps_its_bounds(self) -> None:
        assert 0 <= self.engine.free_cells <= SHAPE.room
        assert self.pool.running <= SHAPE.sequences
        assert len(self.pool.kept) <= SHAPE.kept

    def teardown(self) -> None:
        steps = 0
        while self.batcher.busy:
            self.step()
            steps += 1
            assert steps < 1000
        assert not self.expected
        assert self.pool.running == 0
        self.pool.shutdown()
        assert self.engine.free_cells == SHAPE.room


BatcherMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestBatcher = BatcherMachine.TestCase
