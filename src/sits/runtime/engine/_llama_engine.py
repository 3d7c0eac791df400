"""One KV pool of a llama.cpp model, and the steps that it runs.

Invariants that the rest of the runtime leans on:

* One compute thread while nothing else is asked for, and none that stays after a step: a worker
  is a fork, and a fork is safe only from a process with one thread.
* A unified KV pool with flash attention: a sequence's cells are taken from one buffer, and a
  prefix is shared by a mark on its cells.
* Every call is validated first (`SequenceTable`): an assertion that fails in the native code
  would kill the worker and every request in it.

Source: llama.cpp's own `llama.h` and its batched example.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from sits.runtime.engine._adapters import AdapterSet
from sits.runtime.engine._errors import EngineError
from sits.runtime.engine._interface import Feed, ModelInfo, Sampled
from sits.runtime.engine._llama_adapters import LlamaAdapters
from sits.runtime.engine._llama_native import THREADS, forget_log, last_words, native
from sits.runtime.engine._llama_sampler import LlamaSampler
from sits.runtime.engine._pool import SequenceTable
from sits.runtime.engine._shapes import PoolShape
from sits.wire import Sampling

_BYTES = ctypes.POINTER(ctypes.c_uint8)


class LlamaEngine:
    """A llama.cpp context whose KV cells are shared by all sequences. See `Engine`."""

    def __init__(self, model: Any, vocab: Any, info: ModelInfo, shape: PoolShape) -> None:
        self.shape = shape
        self._vocab = vocab
        self._info = info
        self._table = SequenceTable(shape, info.vocabulary_tokens)
        self._threads = THREADS
        forget_log()
        self._context: Any = native.llama_init_from_model(model, _context_params(shape))
        if not self._context:
            raise EngineError(
                f"llama.cpp gave no context of {shape.room} tokens ({last_words()}); ask for a "
                "smaller pool"
            )
        self._adapters = LlamaAdapters(model, self._context)
        self._memory = native.llama_get_memory(self._context)
        self._batch = native.llama_batch_init(shape.batch_tokens, 0, 1)

    @property
    def free_cells(self) -> int:
        """See `Engine.free_cells`."""
        return self._table.free_cells

    def load_adapters(self, adapters: AdapterSet) -> None:
        """See `Engine.load_adapters`."""
        self._adapters.load(adapters)

    def open(self, sequence: int, adapters: str = "") -> None:
        """See `Engine.open`."""
        self._table.open(sequence, adapters)

    def copy(self, source: int, target: int, tokens: int) -> None:
        """See `Engine.copy`."""
        if not self._info.shares_prefixes:
            raise EngineError("copy: this model's sequences share nothing")
        self._table.copy(source, target, tokens)
        native.llama_memory_seq_cp(self._memory, source, target, 0, tokens)

    def export(self, sequence: int) -> bytes:
        """See `Engine.export`."""
        if not self._table.length(sequence, "export"):
            raise EngineError(f"export: sequence {sequence} has no tokens")
        size = native.llama_state_seq_get_size(self._context, sequence)
        state = np.empty(size, np.uint8)  # megabytes: not cleared first
        written = native.llama_state_seq_get_data(
            self._context, state.ctypes.data_as(_BYTES), size, sequence
        )
        if written != size:
            raise EngineError(f"llama.cpp gave {written} of {size} bytes of sequence {sequence}")
        return state.tobytes()

    def restore(self, sequence: int, tokens: int, state: bytes | memoryview) -> None:
        """See `Engine.restore`."""
        self._table.check_empty(sequence, "restore")
        self._table.check_room(sequence, tokens, "restore")
        forget_log()
        buffer = np.frombuffer(state, np.uint8).ctypes.data_as(_BYTES)
        read = native.llama_state_seq_set_data(self._context, buffer, len(state), sequence)
        last = native.llama_memory_seq_pos_max(self._memory, sequence)
        if read != len(state) or last != tokens - 1:
            native.llama_memory_seq_rm(self._memory, sequence, -1, -1)
            raise EngineError(
                f"llama.cpp does not take this state of {tokens} tokens ({last_words()}): it read "
                f"{read} of {len(state)} bytes and {last + 1} tokens"
            )
        self._table.grow(sequence, tokens)

    def make_sampler(self, sampling: Sampling, history: Sequence[int] = ()) -> LlamaSampler:
        """See `Engine.make_sampler`."""
        self._table.check_tokens(history, "make_sampler")
        self._table.check_tokens([token for token, _ in sampling.logit_bias], "logit_bias")
        return LlamaSampler(self._vocab, self._info.vocabulary_tokens, sampling, history)

    def step(self, feeds: Sequence[Feed], threads: int = THREADS) -> list[Sampled]:
        """See `Engine.step`."""
        self._adapters.apply(self._table.check(feeds, self._adapters))
        if threads != self._threads:
            native.llama_set_n_threads(self._context, threads, threads)
            self._threads = threads
        outputs = self._fill_batch(feeds)
        forget_log()
        status = native.llama_decode(self._context, self._batch)
        if status != 0:
            raise EngineError(f"llama_decode returned {status} ({last_words()})")
        self._table.advance(feeds)
        return [sampler.sample(self._context, row) for sampler, row in outputs]

    def _fill_batch(self, feeds: Sequence[Feed]) -> list[tuple[LlamaSampler, int]]:
        """Fill the native batch; return (sampler, row) of each output that is wanted."""
        batch = self._batch
        outputs: list[tuple[LlamaSampler, int]] = []
        row = 0
        for feed in feeds:
            for offset, token in enumerate(feed.tokens):
                batch.token[row] = token
                batch.pos[row] = feed.start + offset
                batch.n_seq_id[row] = 1
                batch.seq_id[row][0] = feed.sequence
                batch.logits[row] = 0
                row += 1
            if feed.sampler is not None:
                batch.logits[row - 1] = 1
                outputs.append((cast(LlamaSampler, feed.sampler), row - 1))
        batch.n_tokens = row
        return outputs

    def close(self, sequence: int) -> None:
        """See `Engine.close`."""
        if self._table.close(sequence):
            native.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def shutdown(self) -> None:
        """See `Engine.shutdown`."""
        if self._context:
            native.llama_batch_free(self._batch)
            native.llama_free(self._context)
            self._adapters.close()
            self._context = None


def _context_params(shape: PoolShape) -> Any:
    params = native.llama_context_default_params()
    params.n_ctx = shape.room
    params.n_batch = shape.batch_tokens
    params.n_ubatch = shape.batch_tokens
    params.n_seq_max = shape.handles
    params.n_threads = THREADS
    params.n_threads_batch = THREADS
    params.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.kv_unified = True
    params.no_perf = True
    return params
