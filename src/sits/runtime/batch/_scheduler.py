"""Which tokens go into each step.

Rules, in their order of precedence:

1. Every answer that runs gets its next token in every step (what does not fit into the batch
   takes turns).
2. Prompts share what room is left, those of the unit that was given the fewest tokens first. While
   answers run, that is only so much as keeps the step within `stall_us`. Where that is less than
   `piece_tokens`, a prompt gets as many all the same, and then the answers have as much time for
   themselves: both go on at half their pace at least. Smaller pieces in every step would delay
   both more. A prompt that a step completes does not wait for such a turn.
3. Where the pool has no cells for a step, what is kept goes first; then prompts wait; then the
   newest answer is parked, as often as need be. The oldest always goes on.
4. What was parked comes back before anything new begins, the oldest first.
5. Where a unit whose requests are here has an objective for the time between two tokens, only
   so many run together as likely keep it; the strictest one counts.
6. A step is of one set of adapters. Sets take turns (`Turns`), and share the time that steps may
   take: while answers run, a whole round keeps within `stall_us`.
7. Who waits, and begins like a prompt that came before it and is being computed, waits until that
   part is there to be shared; others go on. It waits for nobody who came later, so it waits for a
   few at most, and each of them gets there, ends or is parked.

A request that runs alone is fed its prompt in pieces of `batch_tokens`, so that its greedy text
is that of any other llama.cpp front end with the same batch size.
"""

import math
from collections.abc import Iterable

from sits.policy import choose_batch
from sits.runtime.batch._pace import Pace, Rate
from sits.runtime.batch._queue import FairQueue
from sits.runtime.batch._request import RunningRequest
from sits.runtime.batch._rules import BatchRules
from sits.runtime.batch._turns import Turns
from sits.runtime.engine import Engine, EngineError, Feed
from sits.runtime.kv import KvPool, most_shared, shared_tokens

_LEAST_PIECE = 4
# How long a step is said to take before one was measured: of a large model, on a slow machine.
_UNKNOWN_US = 2e6
# What came back shall go on for a while before the next is parked for it.
_HEADROOM_TOKENS = 16

Batch = list[tuple[RunningRequest, Feed]]


class Scheduler:
    """The requests that wait, run and are parked, and the next step's batch.

    Args:
        rules: `stall_us`, `piece_tokens` and `wait_tokens`.
    """

    def __init__(self, engine: Engine, pool: KvPool, rules: BatchRules) -> None:
        self._engine = engine
        self._pool = pool
        self._rules = rules
        self._owed_us = 0  # to the answers, for the last piece of a prompt
        self._pace = Pace()
        self._queue = FairQueue()
        self._running: list[RunningRequest] = []  # oldest first
        self._parked: list[RunningRequest] = []  # oldest first
        self._arrivals = 0
        self._arrived: dict[RunningRequest, int] = {}
        self._objectives_us: dict[str, float] = {}
        self._rate = Rate()
        self._turns = Turns()

    @property
    def longest_us(self) -> float:
        """How long a step with a full batch is likely to take, on one thread."""
        if not self._pace.is_learnt:
            return _UNKNOWN_US
        return self._pace.predict_us(self._engine.shape.batch_tokens)

    def aim(self, unit: str, itl_us: float | None) -> None:
        """Take a unit's objective for the time between two tokens; None: it has none."""
        if itl_us is None:
            self._objectives_us.pop(unit, None)
        else:
            self._objectives_us[unit] = itl_us

    def add(self, request: RunningRequest) -> None:
        """Have a request wait for its turn."""
        self._rate.arrive(request.marked_us)
        here = (*self._running, *self._parked, *self._queue)
        self._queue.push(request, frozenset(each.unit for each in here))
        self._arrivals += 1
        self._arrived[request] = self._arrivals

    def drop(self, request: RunningRequest) -> None:
        """Forget a request, wherever it is. Its sequence stays its own."""
        del self._arrived[request]
        if request in self._running:
            self._running.remove(request)
        elif request in self._parked:
            self._parked.remove(request)
        else:
            self._queue.remove(request)

    def plan(self, threads: int = 1) -> Batch:
        """Return the next step's batch; empty when nothing can run.

        Mutates who runs, waits and is parked.
        """
        self._bring_back()
        self._admit()
        answers = [request for request in self._running if request.decoding]
        prompts = [request for request in self._running if not request.decoding]
        while not self._pool.make_room(len(answers) or 1):
            if len(self._running) <= 1:
                raise AssertionError("the pool has room for its longest sequence")
            self._park(self._running[-1])
            answers = [request for request in self._running if request.decoding]
            prompts = [request for request in self._running if not request.decoding]
        if not prompts:
            self._pool.tidy()
        return self._fill_turn(answers, prompts, threads)

    def ran(self, batch: Batch, took_us: int, threads: int = 1) -> None:
        """Note that a batch was run, and how long it took."""
        self._pace.learn(sum(len(feed.tokens) for _, feed in batch), took_us, threads)
        stalled = any(request.decoding for request in self._running)
        if stalled and any(feed.sampler is None for _, feed in batch):
            self._owed_us = took_us
        else:
            self._owed_us = max(0, self._owed_us - took_us)
        for request, feed in batch:
            self._pool.fed(request.held, feed.tokens)
            self._queue.charge(request.unit, len(feed.tokens))

    def _fill_turn(
        self, answers: list[RunningRequest], prompts: list[RunningRequest], threads: int
    ) -> Batch:
        """Fill the batch from the set of adapters whose turn it is."""
        if not answers and not prompts:
            return []
        rows, prompts = self._allot(answers, prompts, threads)
        with_answers = {request.adapter for request in answers}
        adapter = self._turns.choose(with_answers, self._served(prompts))
        return self._fill(
            [request for request in answers if request.adapter == adapter],
            [request for request in prompts if request.adapter == adapter],
            rows,
        )

    def _allot(
        self, answers: list[RunningRequest], prompts: list[RunningRequest], threads: int
    ) -> tuple[int, list[RunningRequest]]:
        """Return how many tokens a step with prompts may have, and which prompts may be in it."""
        most = self._engine.shape.batch_tokens
        if not answers:
            return most, prompts
        steps = self._turns.round_steps({each.adapter for each in answers}, self._served(prompts))
        objective_us = self._target_us({request.unit for request in answers})
        if objective_us is not None:
            limit_us = min(self._rules.stall_us, objective_us)
            return self._pace.tokens_within(limit_us / steps, threads), prompts
        fitting = self._pace.tokens_within(self._rules.stall_us / steps, threads)
        least = min(self._rules.piece_tokens, most)
        if fitting < least and self._owed_us > 0:
            room = least - len(answers)
            prompts = [request for request in prompts if request.unfed <= room]
        return max(fitting, least), prompts

    def _served(self, prompts: Iterable[RunningRequest]) -> dict[str, float]:
        """Return of each set of adapters the fewest tokens that a unit with a prompt was given."""
        found: dict[str, float] = {}
        for request in prompts:
            served = self._queue.served(request.unit)
            found[request.adapter] = min(found.get(request.adapter, served), served)
        return found

    def _fill(
        self, answers: list[RunningRequest], prompts: list[RunningRequest], rows: int
    ) -> Batch:
        room = self._engine.shape.batch_tokens
        batch = [(request, request.next_feed(1)) for request in answers[:room]]
        room = min(room - len(batch), max(rows - len(batch), _LEAST_PIECE))
        prompts.sort(key=lambda each: (self._queue.served(each.unit), self._arrived[each]))
        free = self._engine.free_cells - len(batch)
        for request in prompts:
            fits = min(room, request.unfed)
            if fits > free:
                self._pool.make_room(fits + len(batch))
                free = self._engine.free_cells - sum(len(feed.tokens) for _, feed in batch)
                fits = min(fits, free)
            if fits <= 0:
                break
            batch.append((request, request.next_feed(fits)))
            room, free = room - fits, free - fits
        return batch

    def _bring_back(self) -> None:
        while self._parked:
            request = self._parked[0]
            if not self._take_up(request):
                return
            self._parked.remove(request)

    def _admit(self) -> None:
        while not self._parked and (request := self._next()) is not None:
            if len(self._running) >= self._most(request) or not self._take_up(request):
                return
            self._queue.remove(request)

    def _next(self) -> RunningRequest | None:
        """Return who begins next, where there is a sequence for it."""
        if len(self._running) >= self._engine.shape.sequences:
            return None
        computed = [request for request in self._running if not request.decoding]
        return next((r for r in self._queue.in_turn() if not self._waits(r, computed)), None)

    def _waits(self, request: RunningRequest, computed: Iterable[RunningRequest]) -> bool:
        """Return whether a prompt that is being computed will soon have more for it to share."""
        arrived = self._arrived[request]
        soon = max(
            (
                shared_tokens(request.packed, other.packed)
                for other in computed
                if self._arrived[other] < arrived and other.adapter == request.adapter
            ),
            default=0,
        )
        soon = min(soon, most_shared(request.packed))
        return soon >= self._rules.wait_tokens and (
            soon - self._pool.find(request.packed, request.adapter) >= self._rules.wait_tokens
        )

    def _most(self, request: RunningRequest) -> int:
        """Return how many may run together when a request joins."""
        most = self._engine.shape.sequences
        here = (request, *self._running)
        sets = len({each.adapter for each in here})
        target_us = self._target_us({each.unit for each in here})
        if target_us is None:
            return most
        return choose_batch(
            self._rate.per_s,
            target_us / 1e3,
            lambda batch: sets * self._pace.predict_us(math.ceil(batch / sets)) / 1e3,
            most,
        )

    def _target_us(self, units: Iterable[str]) -> float | None:
        return min(
            (self._objectives_us[u] for u in units if u in self._objectives_us), default=None
        )

    def _take_up(self, request: RunningRequest) -> bool:
        """Give a request its sequence; False: there is no room."""
        if self._running and not self._pool.make_room(_HEADROOM_TOKENS):
            return False
        if request.state is not None:
            try:
                entry = self._pool.bring_back(
                    request.tokens[: len(request.tokens) - 1], request.adapter, request.state
                )
            except EngineError:
                request.state = None  # to be computed anew
                return self._take_up(request)
        else:
            entry = self._pool.begin(request.tokens, request.adapter)
        if entry is None:
            return False
        request.entry, request.state = entry, None
        if request.cached_tokens is None:
            request.cached_tokens = min(entry.reused, request.prompt_tokens)
        self._running.append(request)
        self._running.sort(key=self._arrived.__getitem__)
        return True

    def _park(self, request: RunningRequest) -> None:
        """Take a request's sequence away until there is room for it again."""
        if request.decoding:
            request.state = self._pool.export(request.held)
        self._pool.end(request.held, keep=False)
        request.entry = None
        self._running.remove(request)
        self._parked.append(request)
        self._parked.sort(key=self._arrived.__getitem__)
