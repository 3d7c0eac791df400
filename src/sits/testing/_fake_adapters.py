"""Adapters for the fake engine: GGUF files of a few hundred bytes that say words.

Everything but an engine takes them for LoRA adapters; the fake begins its answers with the words.
"""

from pathlib import Path

from sits.models import ModelError, read_gguf_file
from sits.runtime.engine import AdapterLoadError
from sits.testing._tiny_gguf import tiny_gguf

_SAYS = b"\0fake adapter says:"


def tiny_adapter(words: str, architecture: str = "llama") -> bytes:
    """Return a GGUF file that is a LoRA adapter by its header.

    Args:
        words: with which the fake engine begins each answer.
        architecture: of the models that it is for.
    """
    values: dict[str, int | str] = {"general.type": "adapter", "adapter.type": "lora"}
    return tiny_gguf(architecture, values) + _SAYS + words.encode()


def read_fake_adapter(path: str, architecture: str) -> bytes:
    """Return an adapter's words.

    Raises:
        AdapterLoadError: the file is not there, is no adapter, or one of another architecture.
    """
    try:
        header = read_gguf_file(Path(path))
    except (ModelError, OSError) as error:
        raise AdapterLoadError(f"{path}: the fake cannot use this file: {error}") from error
    if header.adapter != "lora":
        raise AdapterLoadError(f"{path}: this is no LoRA adapter; expected one of `tiny_adapter`")
    if header.architecture != architecture:
        raise AdapterLoadError(
            f"{path}: this adapter is for models of the architecture {header.architecture!r}; "
            f"expected {architecture!r}"
        )
    return Path(path).read_bytes().partition(_SAYS)[2]
