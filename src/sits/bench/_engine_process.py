"""The runtime's batcher on the real engine, in a process of its own and without a platform.

    python -m sits.bench._engine_process SETUP

It says `Hello`, then reads rounds (a list of `Work`) from its standard input and answers each
with a list of `Done`. This is the one place where benchmarks use the batcher.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from sits._process import die_with_parent
from sits.bench._engine_orders import Done, Hello, Setup, Work
from sits.runtime.batch import Batcher, BatchRules
from sits.runtime.engine import LLAMACPP, Engine, Model, PoolShape, load_model
from sits.runtime.host import SpareCores
from sits.wire import (
    ChatPrompt,
    Emitted,
    Finished,
    FromWorker,
    Generate,
    Message,
    Sampling,
)

_NEVER = -1e9


def main(setup_json: str) -> None:
    """Run rounds until the standard input ends."""
    die_with_parent(os.getppid())
    setup = msgspec.json.decode(setup_json, type=Setup)
    model = load_model(os.environ.get("SITS_ENGINE") or LLAMACPP, setup.model)
    ends = tuple(t for t in range(model.info.vocabulary_tokens) if model.is_end(t))
    runs = FreshContexts(model, setup) if setup.fresh else make_batcher(model, setup)
    _say(Hello(ends))
    for line in sys.stdin.buffer:
        works = msgspec.json.decode(line, type=list[Work])
        _say(_Round(works, ends).run(runs))


def make_batcher(model: Model, setup: Setup) -> Batcher:
    """Return a batcher on an engine with a pool, as an instance has it."""
    return _batcher_on(model, _make_engine(model, setup), setup)


def _make_engine(model: Model, setup: Setup) -> Engine:
    shape = PoolShape(setup.sequences, setup.sequence_tokens, cells=setup.cells)
    if setup.batch_tokens:
        shape = replace(shape, batch_tokens=setup.batch_tokens)
    return model.make_engine(shape)


def _batcher_on(model: Model, engine: Engine, setup: Setup) -> Batcher:
    cores = SpareCores()
    rules = BatchRules(threads=lambda: min(setup.threads, cores.count()))
    if setup.stall_us is not None:
        rules = replace(rules, stall_us=setup.stall_us)
    return Batcher(model, engine, _now_us, rules=rules)


class FreshContexts:
    """What there is without a pool: a context for each request, given back at its end."""

    def __init__(self, model: Model, setup: Setup) -> None:
        self._model = model
        self._setup = msgspec.structs.replace(setup, sequences=1, cells=0)
        self._running: dict[str, tuple[Batcher, Engine]] = {}

    @property
    def busy(self) -> bool:
        """Whether there is anything to step."""
        return bool(self._running)

    def submit(self, request: Generate) -> None:
        """Take a request in, with a context of its own."""
        engine = _make_engine(self._model, self._setup)
        batcher = _batcher_on(self._model, engine, self._setup)
        batcher.submit(request)
        self._running[request.request_id] = batcher, engine

    def step(self) -> list[FromWorker]:
        """Step each context once, and give those back that are done."""
        events: list[FromWorker] = []
        for name, (batcher, engine) in list(self._running.items()):
            events += batcher.step()
            if not batcher.busy:
                del self._running[name]
                engine.shutdown()
        return events


@dataclass
class _Progress:
    arrivals_s: list[float] = field(default_factory=list)
    text: str = ""
    done: Done | None = None


class _Round:
    """Requests that arrive at their times, until all have ended."""

    def __init__(self, works: Sequence[Work], end_tokens: Sequence[int]) -> None:
        self._sampling = Sampling(
            temperature=0.0, logit_bias=tuple((token, _NEVER) for token in end_tokens)
        )
        self._works = works
        self._progress = [_Progress() for _ in works]

    def run(self, runs: Batcher | FreshContexts) -> list[Done]:
        began_s = time.perf_counter()
        later = sorted(range(len(self._works)), key=lambda index: self._works[index].after_s)
        while later or runs.busy:
            now_s = time.perf_counter() - began_s
            while later and self._works[later[0]].after_s <= now_s:
                runs.submit(self._request(later.pop(0)))
            if not runs.busy:
                time.sleep(max(0.0, self._works[later[0]].after_s - now_s))
                continue
            for event in runs.step():
                self._note(event, time.perf_counter() - began_s)
        return [each.done for each in self._progress if each.done is not None]

    def _request(self, index: int) -> Generate:
        work = self._works[index]
        prompt = ChatPrompt(tuple(Message(role, words) for role, words in work.messages))
        return Generate(str(index), prompt, self._sampling, max_tokens=work.tokens)

    def _note(self, event: FromWorker, now_s: float) -> None:
        progress = self._progress[int(event.request_id)]
        if isinstance(event, Emitted):
            progress.arrivals_s += [now_s] * len(event.piece.tokens)
            progress.text += event.piece.text
        elif isinstance(event, Finished):
            usage = event.usage
            progress.done = Done(
                tuple(progress.arrivals_s),
                progress.text,
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.cached_tokens,
            )
        else:
            raise SystemExit(f"a request ended with {event}")


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def _say(message: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
