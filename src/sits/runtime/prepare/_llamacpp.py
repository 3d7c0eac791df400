"""Writes another form of a model's weights, with llama.cpp's own quantiser.

It reads each tensor's blocks back to floats and writes them anew, a tensor at a time; what is not
quantised (norms) stays as it is. The decision has to be one that loses nothing: `allow_requantize`
lets it do harm as well.
"""

import ctypes
import os
import shutil
from pathlib import Path

import llama_cpp.llama_cpp as native

from sits.models import ModelError, ModelStoreFull
from sits.runtime.prepare._log import last_words, start_log

_TYPES = {
    "BF16": native.LLAMA_FTYPE_MOSTLY_BF16,
    "F16": native.LLAMA_FTYPE_MOSTLY_F16,
    "Q8_0": native.LLAMA_FTYPE_MOSTLY_Q8_0,
}
_SPARE_BYTES = 16 << 20


def write_as(source: Path, target: Path, representation: str) -> None:
    """Write a model's weights in another form.

    Args:
        source: a GGUF file.
        target: the file to write; not synced.
        representation: one of BF16, F16, Q8_0.

    Raises:
        ModelStoreFull: there is no room for it.
        ModelError: llama.cpp cannot do it.
    """
    start_log()
    params = native.llama_model_quantize_default_params()
    params.ftype = _TYPES[representation]
    params.allow_requantize = True
    params.nthread = os.cpu_count() or 1
    status = native.llama_model_quantize(
        os.fsencode(source), os.fsencode(target), ctypes.byref(params)
    )
    if status == 0:
        return
    target.unlink(missing_ok=True)
    if shutil.disk_usage(target.parent).free < _SPARE_BYTES:
        raise ModelStoreFull(
            f"no room for {representation} of {source.name} on the disk of {target.parent}; free "
            "some, or remove models: `sits models gc`"
        )
    raise ModelError(
        f"{source.name} cannot be written as {representation}: {last_words()}; expected a complete "
        "GGUF file of an architecture that llama.cpp knows"
    )
