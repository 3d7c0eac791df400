"""The llama.cpp engine, on llama-cpp-python's low-level API.

Invariants that the rest of the runtime leans on:

* One compute thread. A worker is a fork, and a fork is safe only from a process with one
  thread; and single-threaded workers share the cores fairly.
* A unified KV pool with flash attention: a sequence's cells are taken from one buffer.
* Every call is validated first (`SequenceTable`): an assertion that fails in the native code
  would kill the worker and every request in it.

Source: llama.cpp's own `llama.h` and its batched example; this differs in that all sequences
share one sampler policy of (min-p, top-p, temperature, seeded draw), greedy at temperature 0.
"""

import ctypes
import os
from collections.abc import Sequence
from typing import Any

from sits.runtime.engine._interface import (
    EmbeddingInfo,
    EmbeddingShape,
    EngineError,
    Feed,
    ModelInfo,
    ModelLoadError,
    PoolShape,
)
from sits.runtime.engine._llama_embedding import LlamaEmbeddingEngine, read_embedding_info
from sits.runtime.engine._llama_native import (
    THREADS,
    forget_log,
    last_words,
    native,
    start_library,
)
from sits.runtime.engine._pool import SequenceTable
from sits.wire import Sampling


def load(path: str) -> "LlamaModel":
    """Map a GGUF file. Raises `ModelLoadError` when llama.cpp cannot run it."""
    return LlamaModel(path)


class LlamaModel:
    """A GGUF file with its weights mapped, and its tokenizer."""

    def __init__(self, path: str) -> None:
        start_library()
        forget_log()
        params = native.llama_model_default_params()
        self._model: Any = native.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise ModelLoadError(
                f"{path}: llama.cpp cannot load this model ({last_words()}); expected a GGUF file "
                "of an architecture that it knows"
            )
        if native.llama_model_has_encoder(self._model):
            self.close()
            raise ModelLoadError(
                f"{path}: this model has a separate encoder (as T5 has), which is not run here; "
                "expected a generative model, or an embedding model such as BERT"
            )
        try:
            embedding = read_embedding_info(self._model, path)
        except ModelLoadError:
            self.close()
            raise
        self._vocab = native.llama_model_get_vocab(self._model)
        self.info = self._read_info(embedding)

    def _read_info(self, embedding: EmbeddingInfo | None) -> ModelInfo:
        vocab = self._vocab
        template = native.llama_model_chat_template(self._model, None)
        bos = native.llama_vocab_bos(vocab)
        count = native.llama_vocab_n_tokens(vocab)
        texts = [native.llama_vocab_get_text(vocab, token) or b"" for token in range(count)]
        controls = (t for t in range(count) if native.llama_vocab_is_control(vocab, t))
        return ModelInfo(
            trained_context_tokens=native.llama_model_n_ctx_train(self._model),
            vocabulary_tokens=count,
            chat_template=template.decode("utf-8", "replace") if template else None,
            bos_token=bos if bos >= 0 and native.llama_vocab_get_add_bos(vocab) else None,
            bos_text=self._token_text(bos),
            eos_text=self._token_text(native.llama_vocab_eos(vocab)),
            # In the vocabulary's own spelling, which is never shorter than the bytes.
            longest_token_bytes=max(map(len, texts)),
            control_texts=tuple(filter(None, map(self._token_text, controls))),
            embedding=embedding,
        )

    def _token_text(self, token: int) -> str:
        if token < 0:
            return ""
        return (native.llama_vocab_get_text(self._vocab, token) or b"").decode("utf-8", "replace")

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool = False) -> list[int]:
        """See `Model.tokenize`."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        tokens = (native.llama_token * room)()
        count = native.llama_tokenize(
            self._vocab, data, len(data), tokens, room, add_special, parse_special
        )
        if count < 0:
            raise EngineError(f"llama.cpp could not tokenize a text of {len(data)} bytes")
        return list(tokens[:count])

    def token_bytes(self, token: int) -> bytes:
        """See `Model.token_bytes`."""
        if not 0 <= token < self.info.vocabulary_tokens:
            raise EngineError(
                f"token {token} is not in the vocabulary of {self.info.vocabulary_tokens}"
            )
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = native.llama_token_to_piece(self._vocab, token, buffer, room, 0, False)
            if size >= 0:
                return buffer.raw[:size]
            room = -size

    def is_end(self, token: int) -> bool:
        """See `Model.is_end`."""
        return bool(native.llama_vocab_is_eog(self._vocab, token))

    def make_engine(self, shape: PoolShape) -> "LlamaEngine":
        """See `Model.make_engine`."""
        if self.info.embedding is not None:
            raise EngineError("this model makes vectors and no text; make an embedding engine")
        return LlamaEngine(self._model, self.info, shape)

    def make_embedding_engine(self, shape: EmbeddingShape) -> LlamaEmbeddingEngine:
        """See `Model.make_embedding_engine`."""
        if self.info.embedding is None:
            raise EngineError("this model generates text; its file names no pooling of vectors")
        return LlamaEmbeddingEngine(self._model, self.info, shape)

    def close(self) -> None:
        """See `Model.close`."""
        if self._model:
            native.llama_model_free(self._model)
            self._model = None


class LlamaEngine:
    """A llama.cpp context whose KV cells are shared by `shape.sequences` sequences."""

    def __init__(self, model: Any, info: ModelInfo, shape: PoolShape) -> None:
        self.shape = shape
        self._table = SequenceTable(shape, info.vocabulary_tokens)
        self._samplers: dict[int, Any] = {}
        forget_log()
        self._context: Any = native.llama_init_from_model(model, _context_params(shape))
        if not self._context:
            raise EngineError(
                f"llama.cpp gave no context of {shape.sequences} x {shape.sequence_tokens} tokens "
                f"({last_words()}); ask for a smaller pool"
            )
        self._memory = native.llama_get_memory(self._context)
        self._batch = native.llama_batch_init(shape.batch_tokens, 0, 1)

    def open(self, sequence: int, sampling: Sampling) -> None:
        """See `Engine.open`."""
        self._table.open(sequence)
        self._samplers[sequence] = _make_sampler(sampling)

    def step(self, feeds: Sequence[Feed]) -> list[int]:
        """See `Engine.step`."""
        self._table.check(feeds)
        outputs = self._fill_batch(feeds)
        forget_log()
        status = native.llama_decode(self._context, self._batch)
        if status != 0:
            raise EngineError(f"llama_decode returned {status} ({last_words()})")
        self._table.advance(feeds)
        return [
            native.llama_sampler_sample(self._samplers[sequence], self._context, row)
            for sequence, row in outputs
        ]

    def _fill_batch(self, feeds: Sequence[Feed]) -> list[tuple[int, int]]:
        """Fill the native batch; return (sequence, row) of each output that is wanted."""
        batch = self._batch
        outputs: list[tuple[int, int]] = []
        row = 0
        for feed in feeds:
            for offset, token in enumerate(feed.tokens):
                batch.token[row] = token
                batch.pos[row] = feed.start + offset
                batch.n_seq_id[row] = 1
                batch.seq_id[row][0] = feed.sequence
                batch.logits[row] = 0
                row += 1
            if feed.sample:
                batch.logits[row - 1] = 1
                outputs.append((feed.sequence, row - 1))
        batch.n_tokens = row
        return outputs

    def close(self, sequence: int) -> None:
        """See `Engine.close`."""
        if self._table.close(sequence):
            native.llama_memory_seq_rm(self._memory, sequence, -1, -1)
            native.llama_sampler_free(self._samplers.pop(sequence))

    def shutdown(self) -> None:
        """See `Engine.shutdown`."""
        for sequence in list(self._samplers):
            self.close(sequence)
        if self._context:
            native.llama_batch_free(self._batch)
            native.llama_free(self._context)
            self._context = None


def _context_params(shape: PoolShape) -> Any:
    params = native.llama_context_default_params()
    params.n_ctx = shape.sequences * shape.sequence_tokens
    params.n_batch = shape.batch_tokens
    params.n_ubatch = shape.batch_tokens
    params.n_seq_max = shape.sequences
    params.n_threads = THREADS
    params.n_threads_batch = THREADS
    params.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.kv_unified = True
    params.no_perf = True
    return params


def _make_sampler(sampling: Sampling) -> Any:
    chain = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
    if sampling.temperature <= 0:
        native.llama_sampler_chain_add(chain, native.llama_sampler_init_greedy())
        return chain
    seed = sampling.seed if sampling.seed is not None else int.from_bytes(os.urandom(4), "big")
    # min-p first: it needs no sorted vocabulary, and leaves top-p few tokens to sort.
    for link in (
        native.llama_sampler_init_min_p(sampling.min_p, 1),
        native.llama_sampler_init_top_p(sampling.top_p, 1),
        native.llama_sampler_init_temp(sampling.temperature),
        native.llama_sampler_init_dist(seed & 0xFFFFFFFF),
    ):
        native.llama_sampler_chain_add(chain, link)
    return chain
