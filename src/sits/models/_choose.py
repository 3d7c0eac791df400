"""Which file of a repository at the hub is meant.

Without `#FILE` it is the first of `PREFERENCE` that the repository has as a single GGUF file: a
download of moderate size that loses little, since what is taken in is expanded to the fastest
form of this machine anyway.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sits.models._architectures import CAN_BE_USED
from sits.models._builtins import usable
from sits.models._errors import ModelError

PREFERENCE = (
    "Q4_K_M", "Q4_K_S", "Q5_K_M", "Q5_K_S", "Q6_K", "Q8_0", "Q4_1", "Q4_0", "Q5_1", "Q5_0",
    "IQ4_NL", "IQ4_XS", "BF16", "F16", "F32",
)  # fmt: skip
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
# Files that are GGUF and no model: projectors for images, calibration data, adapters.
_NO_MODEL = re.compile(r"(^|[/._-])(mmproj|imatrix|lora|adapter|vocab)([/._-]|$)", re.IGNORECASE)
_SHOWN = 8


@dataclass(frozen=True)
class HubFile:
    """One file of a repository.

    Attributes:
        sha256: hex digits of its content's digest; None where the hub keeps it in git itself.
        blob_id: git's id of its content; None when the hub did not say.
    """

    name: str
    size_bytes: int
    sha256: str | None = None
    blob_id: str | None = None


def choose_file(files: Sequence[HubFile], wanted: str | None, reference: str) -> HubFile:
    """Return the file of a repository that a reference means.

    Args:
        files: all files of the repository.
        wanted: the file that the reference names, if it names one.
        reference: as the unit has it, for messages.

    Raises:
        ModelError: there is none that can be run; the message says which can be used.
    """
    models = [file for file in files if file.name.endswith(".gguf")]
    single = [f for f in models if not _SPLIT.search(f.name) and not _NO_MODEL.search(f.name)]
    if wanted is not None:
        return _wanted(models, wanted, reference, single)
    if not models:
        raise ModelError(
            f"model '{reference}': its repository has no GGUF file{_other_form(files)}; use a "
            f"repository with {CAN_BE_USED}, convert the model with llama.cpp's "
            f"convert_hf_to_gguf.py and name it file:///PATH.gguf, or use {usable()}"
        )
    if not single:
        raise ModelError(
            f"model '{reference}': its repository has no GGUF file that is a whole model: "
            f"{_names(models)} are parts of split models, projectors or adapters; join a split "
            f"model with llama.cpp's llama-gguf-split --merge and name it file:///PATH.gguf, or "
            f"use {usable()}"
        )
    return min(single, key=_rank)


def _wanted(
    models: Sequence[HubFile], wanted: str, reference: str, single: Sequence[HubFile]
) -> HubFile:
    instead = f"use one of {_names(single)}" if single else f"use {usable()}"
    if _SPLIT.search(wanted):
        raise ModelError(
            f"model '{reference}': {wanted} is one part of a split model, and only single files "
            f"are taken; {instead}, or join it with llama.cpp's llama-gguf-split --merge"
        )
    for file in models:
        if file.name == wanted:
            return file
    raise ModelError(f"model '{reference}': its repository has no file {wanted}; {instead}")


def _rank(file: HubFile) -> tuple[int, int, str]:
    words = re.split(r"[./-]", file.name.upper())
    places = [PREFERENCE.index(word) for word in words if word in PREFERENCE]
    return (min(places, default=len(PREFERENCE)), file.size_bytes, file.name)


def _other_form(files: Sequence[HubFile]) -> str:
    for suffix, form in ((".safetensors", "safetensors"), (".bin", "PyTorch"), (".onnx", "ONNX")):
        if any(file.name.endswith(suffix) for file in files):
            return f" (its weights are {form}, which the engine cannot run)"
    return ""


def _names(files: Sequence[HubFile]) -> str:
    names = sorted(file.name for file in files)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"#{name}" for name in names[:_SHOWN]) + more
