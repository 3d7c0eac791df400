"""The llama.cpp models: a file with its weights mapped, its tokenizer, and what it says of itself.

`LlamaEngine` and `LlamaEmbeddingEngine` run on it, by llama-cpp-python's low-level API.
"""

import ctypes
import importlib.metadata
import os
from typing import Any

from sits.runtime.engine._errors import EngineError, ModelLoadError
from sits.runtime.engine._interface import EmbeddingInfo, ModelInfo
from sits.runtime.engine._llama_embedding import LlamaEmbeddingEngine, read_embedding_info
from sits.runtime.engine._llama_engine import LlamaEngine
from sits.runtime.engine._llama_native import forget_log, last_words, native, start_library
from sits.runtime.engine._shapes import EmbeddingShape, PoolShape


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
            shares_prefixes=not (
                native.llama_model_is_recurrent(self._model)
                or native.llama_model_is_hybrid(self._model)
                or native.llama_model_n_swa(self._model)
            ),
            engine=f"llamacpp {importlib.metadata.version('llama-cpp-python')}",
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
        return LlamaEngine(self._model, self._vocab, self.info, shape)

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
