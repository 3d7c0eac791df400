"""The llama.cpp models: a file with its weights mapped, its tokenizer, and what it says of itself.

`LlamaEngine` and `LlamaEmbeddingEngine` run on it, by llama-cpp-python's low-level API.
"""

import contextlib
import os
from typing import Any

from sits.runtime.engine._errors import EngineError, ModelLoadError
from sits.runtime.engine._llama_embedding import LlamaEmbeddingEngine, read_embedding_info
from sits.runtime.engine._llama_engine import LlamaEngine
from sits.runtime.engine._llama_native import forget_log, last_words, native, start_library
from sits.runtime.engine._llama_vocabulary import (
    LlamaVocabulary,
    load_bare,
    remember,
    remembered,
)
from sits.runtime.engine._shapes import EmbeddingShape, PoolShape

__all__ = ["LlamaModel", "load", "remember", "start_library"]


def load(path: str) -> "LlamaModel":
    """Map a GGUF file. Raises `ModelLoadError` when llama.cpp cannot run it."""
    return LlamaModel(path)


class LlamaModel:
    """A GGUF file with its weights mapped, and its tokenizer."""

    def __init__(self, path: str) -> None:
        start_library()
        forget_log()
        model, vocabulary = _load(path)
        self._model: Any = model
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
        self._vocabulary = vocabulary or LlamaVocabulary(self._model, embedding)
        self.info = self._vocabulary.info_with(self._model)
        self.tokenize = self._vocabulary.tokenize
        self.token_bytes = self._vocabulary.token_bytes
        self.is_end = self._vocabulary.is_end

    def make_engine(self, shape: PoolShape) -> "LlamaEngine":
        """See `Model.make_engine`."""
        if self.info.embedding is not None:
            raise EngineError("this model makes vectors and no text; make an embedding engine")
        return LlamaEngine(self._model, self._vocabulary.native, self.info, shape)

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


def _load(path: str) -> tuple[Any, LlamaVocabulary | None]:
    """Return the native model, None where it cannot be loaded, and the vocabulary that it lacks."""
    with contextlib.suppress(OSError):  # the loader says what is wrong with it
        vocabulary = remembered(path)
        bare = load_bare(path, vocabulary) if vocabulary else None
        if bare:
            return bare, vocabulary
    params = native.llama_model_default_params()
    return native.llama_model_load_from_file(os.fsencode(path), params), None
