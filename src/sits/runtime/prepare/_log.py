"""What llama.cpp said last, for messages."""

import ctypes
from collections import deque
from typing import Any

import llama_cpp.llama_cpp as native

_WARNING, _ERROR = 3, 4
_tail: deque[str] = deque(maxlen=8)


def _keep_line(level: int, text: bytes, _user_data: Any) -> None:
    if level in (_WARNING, _ERROR) and text:
        _tail.append(text.decode("utf-8", "replace").strip())


# A module's name, so that it lives as long as the native code that calls it.
_on_log = native.llama_log_callback(_keep_line)


def start_log() -> None:
    """Keep what llama.cpp says from now on, and forget what it said before."""
    native.llama_log_set(_on_log, ctypes.c_void_p(0))
    native.llama_backend_init()
    _tail.clear()


def last_words() -> str:
    """Return what llama.cpp said last that sounds like trouble."""
    return "; ".join(line for line in _tail if line) or "it gave no reason"
