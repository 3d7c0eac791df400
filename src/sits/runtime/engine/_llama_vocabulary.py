"""A llama.cpp model's tokenizer and what its file says of it: all of a model but its weights.

Reading a vocabulary of 49,000 tokens takes most of the time that a small model takes to load. So
`remember` keeps one in a process from which model hosts are forked, and `remembered` finds it:
such a host reads the weights alone.

Invariants: a vocabulary is found again only for the very same file, unchanged; no more than
`_MOST` are kept, and the one used longest ago goes.
"""

import ctypes
import importlib.metadata
import os
from dataclasses import replace
from typing import Any

from sits.runtime.engine._errors import EngineError, ModelLoadError
from sits.runtime.engine._interface import EmbeddingInfo, ModelInfo
from sits.runtime.engine._llama_embedding import read_embedding_info
from sits.runtime.engine._llama_native import native
from sits.runtime.engine._llama_special import read_special_texts

_MOST = 8
_ENGINE = f"llamacpp {importlib.metadata.version('llama-cpp-python')}"

FileKey = tuple[int, int, int, int]


def file_key(path: str) -> FileKey:
    """Return what tells a file from all others, and from what it was before a change.

    Raises:
        OSError: there is none.
    """
    seen = os.stat(path)
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


class LlamaVocabulary:
    """A tokenizer, on a native model that holds it.

    Args:
        model: the native model; it lives as long as this.
        embedding: what was read of it, if it makes vectors.
    """

    def __init__(self, model: Any, embedding: EmbeddingInfo | None) -> None:
        self.native = native.llama_model_get_vocab(model)
        self.info = _read_info(model, self.native, embedding)

    def info_with(self, model: Any) -> ModelInfo:
        """Return what the file says, of which the weights' part is read of `model`."""
        return replace(self.info, **_read_weights_info(model))

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool = False) -> list[int]:
        """See `Model.tokenize`."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        tokens = (native.llama_token * room)()
        count = native.llama_tokenize(
            self.native, data, len(data), tokens, room, add_special, parse_special
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
            size = native.llama_token_to_piece(self.native, token, buffer, room, 0, False)
            if size >= 0:
                return buffer.raw[:size]
            room = -size

    def is_end(self, token: int) -> bool:
        """See `Model.is_end`."""
        return bool(native.llama_vocab_is_eog(self.native, token))


def _read_info(model: Any, vocab: Any, embedding: EmbeddingInfo | None) -> ModelInfo:
    template = native.llama_model_chat_template(model, None)
    bos = native.llama_vocab_bos(vocab)
    count = native.llama_vocab_n_tokens(vocab)
    texts = [native.llama_vocab_get_text(vocab, token) or b"" for token in range(count)]
    special = read_special_texts(vocab)
    return ModelInfo(
        vocabulary_tokens=count,
        chat_template=template.decode("utf-8", "replace") if template else None,
        bos_token=bos if bos >= 0 and native.llama_vocab_get_add_bos(vocab) else None,
        bos_text=_token_text(vocab, bos),
        eos_text=_token_text(vocab, native.llama_vocab_eos(vocab)),
        # In the vocabulary's own spelling, which is never shorter than the bytes.
        longest_token_bytes=max(map(len, texts)),
        control_texts=special.control,
        cut_texts=special.cuts,
        embedding=embedding,
        engine=_ENGINE,
        **_read_weights_info(model),
    )


def _read_weights_info(model: Any) -> dict[str, Any]:
    """Return what a native model without its weights does not know."""
    return {
        "trained_context_tokens": native.llama_model_n_ctx_train(model),
        "shares_prefixes": not (
            native.llama_model_is_recurrent(model)
            or native.llama_model_is_hybrid(model)
            or native.llama_model_n_swa(model)
        ),
    }


def _token_text(vocab: Any, token: int) -> str:
    if token < 0:
        return ""
    return (native.llama_vocab_get_text(vocab, token) or b"").decode("utf-8", "replace")


_kept: dict[FileKey, tuple[Any, LlamaVocabulary]] = {}


def remembered(path: str) -> LlamaVocabulary | None:
    """Return the vocabulary of a file, if it is kept."""
    found = _kept.get(file_key(path))
    return found[1] if found else None


def remember(path: str) -> LlamaVocabulary | None:
    """Keep a file's vocabulary in this process, and so in all its forks; return it.

    Only of a model that was loaded before, since the library ends a process over some broken
    files. A model that makes vectors is left out: its weights need its vocabulary beside them.
    """
    key = file_key(path)
    if key in _kept:
        _kept[key] = _kept.pop(key)
        return _kept[key][1]
    params = native.llama_model_default_params()
    params.vocab_only = True
    model = native.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        return None
    if _makes_vectors(model, path):
        native.llama_model_free(model)
        return None
    vocabulary = LlamaVocabulary(model, None)
    _kept[key] = model, vocabulary
    while len(_kept) > _MOST:
        native.llama_model_free(_kept.pop(next(iter(_kept)))[0])
    return vocabulary


def _makes_vectors(model: Any, path: str) -> bool:
    try:
        return read_embedding_info(model, path) is not None
    except ModelLoadError:
        return True  # or scores: it is another file than the one that was loaded


def load_bare(path: str, vocabulary: LlamaVocabulary) -> Any:
    """Return the native model of a file without a vocabulary of its own; None: it needs one."""
    params = native.llama_model_default_params()
    overrides: Any = (native.llama_model_kv_override * 2)()
    overrides[0].key = b"tokenizer.ggml.model"
    overrides[0].tag = native.LLAMA_KV_OVERRIDE_TYPE_STR
    overrides[0].value.val_str = b"no_vocab"
    # An empty key ends the list.
    params.kv_overrides = overrides
    model = native.llama_model_load_from_file(os.fsencode(path), params)
    # Tokens are then counted from a field that not every file has.
    if (
        model
        and native.llama_vocab_n_tokens(native.llama_model_get_vocab(model))
        != vocabulary.info.vocabulary_tokens
    ):
        native.llama_model_free(model)
        return None
    return model
