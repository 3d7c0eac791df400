"""The LoRA adapters of one llama.cpp context.

Invariants: a file is loaded once, however many sets have it; the context is told of a set only
when the one before was another. The library applies a set to a whole context, so a batch has one.
"""

import ctypes
import os
from typing import Any

from sits.runtime.engine._adapters import AdapterFile, AdapterSet
from sits.runtime.engine._errors import AdapterLoadError, EngineError
from sits.runtime.engine._llama_native import forget_log, last_words, native


class LlamaAdapters:
    """What is loaded, and what the context computes with.

    Args:
        model: the native model that they change.
        context: the native context.
    """

    def __init__(self, model: Any, context: Any) -> None:
        self._model = model
        self._context = context
        self._files: dict[str, Any] = {}
        self._sets: dict[str, AdapterSet] = {}
        self._applied = ""

    def __contains__(self, digest: object) -> bool:
        """Return whether a set is ready."""
        return digest in self._sets

    def load(self, adapters: AdapterSet) -> None:
        """See `Engine.load_adapters`."""
        if len({file.digest for file in adapters.files}) < len(adapters.files):
            raise AdapterLoadError(
                "a set has one adapter twice; give it once, with the sum of its scales"
            )
        for file in adapters.files:
            if file.digest not in self._files:
                self._files[file.digest] = self._open(file)
        self._sets[adapters.digest] = adapters

    def _open(self, file: AdapterFile) -> Any:
        forget_log()
        handle = native.llama_adapter_lora_init(self._model, os.fsencode(file.path))
        if not handle:
            raise AdapterLoadError(
                f"{file.path}: llama.cpp cannot use this file with this model ({last_words()}); "
                "expected a LoRA adapter as GGUF, trained on the same model"
            )
        if native.llama_adapter_get_alora_n_invocation_tokens(handle):
            native.llama_adapter_lora_free(handle)
            raise AdapterLoadError(
                f"{file.path}: this adapter begins at words of its own (activated LoRA), which is "
                "not served; expected a plain LoRA adapter"
            )
        return handle

    def apply(self, digest: str) -> None:
        """Have the next steps computed with a set that is ready; empty: with the model alone.

        Raises:
            EngineError: the library refuses it.
        """
        if digest == self._applied:
            return
        files = self._sets[digest].files if digest else ()
        handles = (native.llama_adapter_lora_p_ctypes * len(files))(
            *(self._files[file.digest] for file in files)
        )
        scales = (ctypes.c_float * len(files))(*(file.scale for file in files))
        status = native.llama_set_adapters_lora(self._context, handles, len(files), scales)
        if status != 0:
            raise EngineError(f"llama_set_adapters_lora returned {status} ({last_words()})")
        self._applied = digest

    def close(self) -> None:
        """Give their memory back; the context must be gone. Idempotent."""
        for handle in self._files.values():
            native.llama_adapter_lora_free(handle)
        self._files.clear()
        self._sets.clear()
