"""The library itself, and what it said last: shared by the llama.cpp engines.

Invariant: the library logs into a short tail of ours, from which a failure is explained.
"""

import ctypes
from collections import deque
from typing import Any

from sits.runtime.engine._errors import EngineError

try:
    import llama_cpp.llama_cpp as native
except ImportError as error:
    raise EngineError(
        "the llama.cpp engine is not installed; run `make` in a checkout, or "
        "`pip install 'sits[llamacpp]'` with GGML_OPENMP=OFF in CMAKE_ARGS"
    ) from error

__all__ = ["THREADS", "forget_log", "last_words", "native", "read_metadata", "start_library"]

THREADS = 1
"""A worker is a fork, and a fork is safe only from a process with one thread."""

_WARNING = 3
_ERROR = 4
_log_tail: deque[str] = deque(maxlen=8)


def _keep_log_line(level: int, text: bytes, _user_data: Any) -> None:
    if level in (_WARNING, _ERROR) and text:
        _log_tail.append(text.decode("utf-8", "replace").strip())


# A module's name, so that it lives as long as the native code that calls it.
_on_log = native.llama_log_callback(_keep_log_line)


def start_library() -> None:
    """Start the library, with its log coming to us. Idempotent."""
    native.llama_log_set(_on_log, ctypes.c_void_p(0))
    native.llama_backend_init()


def forget_log() -> None:
    """Begin anew: what is said from now on explains the next failure."""
    _log_tail.clear()


def last_words() -> str:
    """Return what the library has said since `forget_log`."""
    return "; ".join(line for line in _log_tail if line) or "it gave no reason"


def read_metadata(model: Any, key: str) -> str | None:
    """Return a value of a model file's metadata, None when it has none of that name."""
    room = 256
    buffer = ctypes.create_string_buffer(room)
    size = native.llama_model_meta_val_str(model, key.encode(), buffer, room)
    return buffer.value.decode("utf-8", "replace") if size >= 0 else None
