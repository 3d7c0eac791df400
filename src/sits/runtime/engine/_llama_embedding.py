"""Vectors from llama.cpp: which models make them, and one step that makes a batch of them.

Invariants:

* The pooling is what the file says. A bidirectional model whose file says nothing is pooled by
  the mean, as nearly all of that kind are; a reranker is refused, since its scores are no vectors.
* A batch is one micro-batch: every token of an input has to see every other, and the library
  ends the process when a batch is larger than its micro-batch.
* Nothing is kept between two batches: a model with a KV memory has it cleared first.

Source: llama.cpp's own embedding example.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sits.runtime.engine._errors import EngineError, ModelLoadError
from sits.runtime.engine._inputs import check_inputs
from sits.runtime.engine._interface import EmbeddingInfo, ModelInfo, Pooling
from sits.runtime.engine._llama_native import (
    THREADS,
    forget_log,
    last_words,
    native,
    read_metadata,
)
from sits.runtime.engine._shapes import EmbeddingShape

# The numbers of `enum llama_pooling_type`, as files have them.
_NONE, _RANK = "0", "4"
_POOLING = {"1": Pooling.MEAN, "2": Pooling.CLS, "3": Pooling.LAST}
_NATIVE = {
    Pooling.MEAN: native.LLAMA_POOLING_TYPE_MEAN,
    Pooling.CLS: native.LLAMA_POOLING_TYPE_CLS,
    Pooling.LAST: native.LLAMA_POOLING_TYPE_LAST,
}


def read_embedding_info(model: Any, path: str) -> EmbeddingInfo | None:
    """Return what an embedding model's file says of its vectors; None for a generative model.

    Raises:
        ModelLoadError: the model is a reranker.
    """
    architecture = read_metadata(model, "general.architecture") or ""
    named = read_metadata(model, f"{architecture}.pooling_type")
    bidirectional = read_metadata(model, f"{architecture}.attention.causal") == "false"
    if named == _RANK:
        raise ModelLoadError(
            f"{path}: this model is a reranker, which gives scores and no vectors; expected a "
            "generative model or an embedding model"
        )
    pooling = _POOLING.get(named or _NONE)
    if pooling is None and bidirectional:
        pooling = Pooling.MEAN
    if pooling is None:
        return None
    return EmbeddingInfo(native.llama_model_n_embd_out(model), pooling)


class LlamaEmbeddingEngine:
    """A llama.cpp context that takes one batch at a time. See `EmbeddingEngine`."""

    def __init__(self, model: Any, info: ModelInfo, shape: EmbeddingShape) -> None:
        if info.embedding is None:
            raise AssertionError("an embedding engine is made for an embedding model")
        self.shape = shape
        self._vocabulary_tokens = info.vocabulary_tokens
        self._dimensions = info.embedding.dimensions
        forget_log()
        self._context: Any = native.llama_init_from_model(
            model, _context_params(shape, info.embedding.pooling)
        )
        if not self._context:
            raise EngineError(
                f"llama.cpp gave no context of {shape.batch_tokens} tokens ({last_words()}); ask "
                "for a smaller batch"
            )
        # A model that attends in both directions has none.
        self._memory = native.llama_get_memory(self._context)
        self._batch = native.llama_batch_init(shape.batch_tokens, 0, 1)

    def embed(self, inputs: Sequence[Sequence[int]]) -> list[bytes]:
        """See `EmbeddingEngine.embed`."""
        check_inputs(inputs, self.shape, self._vocabulary_tokens)
        self._fill_batch(inputs)
        forget_log()
        if self._memory:
            native.llama_memory_clear(self._memory, True)
            status = native.llama_decode(self._context, self._batch)
        else:
            status = native.llama_encode(self._context, self._batch)
        if status != 0:
            raise EngineError(f"llama.cpp returned {status} for a batch ({last_words()})")
        return [self._vector(number) for number in range(len(inputs))]

    def _fill_batch(self, inputs: Sequence[Sequence[int]]) -> None:
        batch, row = self._batch, 0
        for number, tokens in enumerate(inputs):
            for position, token in enumerate(tokens):
                batch.token[row] = token
                batch.pos[row] = position
                batch.n_seq_id[row] = 1
                batch.seq_id[row][0] = number
                batch.logits[row] = 1
                row += 1
        batch.n_tokens = row

    def _vector(self, number: int) -> bytes:
        pointer = native.llama_get_embeddings_seq(self._context, number)
        if not pointer:
            raise EngineError(f"llama.cpp gave no vector for input {number} ({last_words()})")
        values = np.ctypeslib.as_array(pointer, (self._dimensions,)).astype(np.float64)
        length = float(np.linalg.norm(values))
        if not np.isfinite(length) or length == 0.0:
            raise EngineError(
                f"the vector of input {number} has the length {length}, so it has no direction; "
                "the model's weights may be damaged"
            )
        return (values / length).astype("<f4").tobytes()

    def shutdown(self) -> None:
        """See `EmbeddingEngine.shutdown`."""
        if self._context:
            native.llama_batch_free(self._batch)
            native.llama_free(self._context)
            self._context = None


def _context_params(shape: EmbeddingShape, pooling: Pooling) -> Any:
    params = native.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = shape.batch_tokens
    params.n_seq_max = shape.inputs
    params.n_threads = params.n_threads_batch = THREADS
    params.embeddings = True
    params.pooling_type = _NATIVE[pooling]
    params.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.kv_unified = True
    params.no_perf = True
    return params
