"""What an instance runs: which engine, which batcher, how many requests at once.

The processes of this package are the same for every kind of model; this is where they differ.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from sits.runtime.batch import Batcher, BatchRules, EmbeddingBatcher, make_pool
from sits.runtime.engine import (
    AdapterLoadError,
    AdapterSet,
    EmbeddingEngine,
    EmbeddingShape,
    Engine,
    Model,
    PoolShape,
)
from sits.runtime.host._prefixes import Prefixes, PrefixFiles
from sits.runtime.kv import KvPool
from sits.wire import Embed, FromWorker, Generate

# All requests share each batch and take turns in it, so more at once than this would only make
# each of them slower.
_EMBEDDING_CAPACITY = 16
_EMBEDDING_STEP_TOKENS = 512
# A pool for all sequences at their longest, which they seldom are, over a pool as it is made: what
# finds no room is parked. Its size is what a start from the disk, and a fork, mostly wait for.
_OVERCOMMIT = 2

_DEFAULT_RULES = BatchRules()


def monotonic_us() -> int:
    """Return a monotonic clock's microseconds."""
    return time.monotonic_ns() // 1000


class AnyBatcher(Protocol):
    """One instance's requests, of whichever kind; see `Batcher`."""

    @property
    def busy(self) -> bool:
        """Whether there is anything to step."""
        ...

    @property
    def request_ids(self) -> frozenset[str]:
        """The ids of all requests here."""
        ...

    @property
    def step_us(self) -> float:
        """How long the longest step is likely to take."""
        ...

    def aim(self, unit: str, itl_ms: float | None) -> None:
        """Take a unit's objective for the time between two tokens."""
        ...

    def submit(self, request: Generate | Embed, unit: str = "", adapter: str = "") -> None:
        """Take a unit's request in, for a set of adapters, or raise `RequestRefused`."""
        ...

    def cancel(self, request_id: str) -> None:
        """Forget a request. An unknown id is no error."""
        ...

    def step(self) -> list[FromWorker]:
        """Run one engine step and return what it brought."""
        ...


class Runner(Protocol):
    """An engine with its memory taken, for one instance, or for a template and its forks."""

    @property
    def capacity(self) -> int:
        """How many requests an instance runs at once."""
        ...

    def make_batcher(
        self, now_us: Callable[[], int], rules: BatchRules = _DEFAULT_RULES
    ) -> AnyBatcher:
        """Return a batcher on the engine; in a process of its own, or the only one."""
        ...

    def load_adapters(self, adapters: AdapterSet) -> None:
        """Have a set of adapters ready. Idempotent.

        Raises:
            EngineError: one cannot be used with this model.
        """
        ...

    def make_prefixes(self, files: PrefixFiles | None) -> Prefixes | None:
        """Return the constant beginnings of prompts; None where prompts have none."""
        ...

    def shutdown(self) -> None:
        """Give the memory back. Idempotent."""
        ...


def make_runner(model: Model, shape: PoolShape) -> Runner:
    """Take what one instance of the model needs.

    Args:
        model: of whichever kind.
        shape: of a generative model's pool, which has room for half of its sequences at their
            longest where it names no number; an embedding model's inputs are at most so long.

    Raises:
        EngineError: the memory cannot be had.
    """
    longest = min(shape.sequence_tokens, model.info.trained_context_tokens)
    if model.info.embedding is None:
        cells = shape.cells or max(longest, shape.sequences * longest // _OVERCOMMIT)
        engine = model.make_engine(replace(shape, sequence_tokens=longest, cells=cells))
        return _Generating(model, engine, make_pool(model, engine, monotonic_us))
    batch = EmbeddingShape(input_tokens=longest, batch_tokens=max(longest, _EMBEDDING_STEP_TOKENS))
    return _Embedding(model, model.make_embedding_engine(batch))


@dataclass(frozen=True)
class _Generating:
    model: Model
    engine: Engine
    pool: KvPool

    @property
    def capacity(self) -> int:
        return self.engine.shape.sequences

    def make_batcher(
        self, now_us: Callable[[], int], rules: BatchRules = _DEFAULT_RULES
    ) -> AnyBatcher:
        return Batcher(self.model, self.engine, now_us, pool=self.pool, rules=rules)

    def load_adapters(self, adapters: AdapterSet) -> None:
        self.engine.load_adapters(adapters)

    def make_prefixes(self, files: PrefixFiles | None) -> Prefixes | None:
        return Prefixes(self.model, self.engine, self.pool, files)

    def shutdown(self) -> None:
        self.engine.shutdown()


@dataclass(frozen=True)
class _Embedding:
    model: Model
    engine: EmbeddingEngine

    @property
    def capacity(self) -> int:
        return _EMBEDDING_CAPACITY

    def make_batcher(
        self,
        now_us: Callable[[], int],
        rules: BatchRules = _DEFAULT_RULES,
    ) -> AnyBatcher:
        return EmbeddingBatcher(self.model, self.engine, now_us)

    def load_adapters(self, adapters: AdapterSet) -> None:
        if adapters.files:
            raise AdapterLoadError(
                f"{adapters.files[0].path}: this model makes vectors, and adapters are served for "
                "models that generate text; take the adapter out of the unit"
            )

    def make_prefixes(self, files: PrefixFiles | None) -> Prefixes | None:
        return None

    def shutdown(self) -> None:
        self.engine.shutdown()
