"""Reads what a GGUF file says of itself, from its first bytes on, wherever these come from.

Why not the `gguf` package: it maps a whole local file, takes a tenth of a second to import, and
what is asked here is asked of a hub, a few kilobytes at a time, before anything is downloaded.

Invariants: memory is bounded whatever the file claims (lengths are checked before they are
believed), and values of arrays are passed over, never kept.

Source: the GGUF specification (ggml's docs/gguf.md), versions 2 and 3, little endian.
"""

import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sits.models._errors import ModelError

MAGIC = b"GGUF"
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_MAX_KEY_BYTES = 65_535
_MAX_TEXT_BYTES = 16 << 20
_MAX_PAIRS = 100_000
_MAX_TENSORS = 1_000_000
_CHUNK_BYTES = 1 << 20
_ALIGNMENT = 32  # of the weights, unless the file says another
# Only these are wanted as values; the vocabulary may have megabytes of them.
_WANTED = ("general.", "split.", "adapter.")
_WANTED_ENDS = (".context_length", ".pooling_type", ".block_count")
# ggml's numbers of the types that weights have; (elements, bytes) of one block of them.
TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
Read = Callable[[int], bytes]


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says of itself.

    Attributes:
        architecture: as its converter named it, such as llama.
        context_tokens: the longest context that it was trained for; 0: it does not say.
        pooling: how embeddings are pooled (1 mean, 2 CLS, 3 last, 4 rank); None: it has no say.
        splits: of how many files it is one.
        elements: type of tensor to the number of its elements (only from `read_gguf_file`).
        adapter: which kind of adapter it is, such as lora; empty: it is a model.
        shapes: tensor to its dimensions, in ggml's order (only from `read_gguf_file`).
    """

    architecture: str
    context_tokens: int = 0
    pooling: int | None = None
    splits: int = 1
    elements: dict[str, int] = field(default_factory=dict)
    adapter: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def representation(self) -> str:
        """The type that most of the weights have; empty when the tensors were not read."""
        return max(self.elements, key=lambda name: self.elements[name], default="")


def read_gguf_file(path: Path, name: str = "") -> GgufHeader:
    """Read a local file's header, with its tensors' types, and see whether it is whole.

    Args:
        path: the file.
        name: what messages call it; empty: by its path.

    Raises:
        ModelError: it is no GGUF file, or a broken one, or its weights are not all there.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return _read(stream.read, name or str(path), size_bytes=size)


def read_gguf_start(read: Read, name: str) -> GgufHeader:
    """Read the part of a header that says what the model is, and no further than needed.

    Args:
        read: gives the next so many bytes; fewer only at the end of the file.
        name: of the file, for messages.

    Raises:
        ModelError: it is no GGUF file, or a broken one.
    """
    return _read(read, name, size_bytes=None)


class _Reader:
    def __init__(self, read: Read, name: str) -> None:
        self._read = read
        self._name = name
        self.position = 0

    def start(self, count: int) -> bytes:
        """Return the first bytes, or as many as there are."""
        self.position = count
        return self._read(count)

    def bytes(self, count: int) -> bytes:
        data = self._read(count)
        if len(data) != count:
            raise self.broken("it ends too early")
        self.position += count
        return data

    def skip(self, count: int) -> None:
        while count > 0:
            count -= len(self.bytes(min(count, _CHUNK_BYTES)))

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))[0]

    def text(self, limit: int) -> str:
        length = self.number("Q")
        if length > limit:
            raise self.broken(f"a text of {length} bytes where at most {limit} are expected")
        return self.bytes(length).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text(_MAX_TEXT_BYTES)
        if kind != _ARRAY or depth > 4:
            raise self.broken(f"a value of the unknown type {kind}")
        kind, count = self.number("I"), self.number("Q")
        if kind in _SCALARS:
            self.skip(count * struct.calcsize(f"<{_SCALARS[kind]}"))
        else:
            for _ in range(count):
                self.value(kind, depth + 1)
        return None

    def broken(self, why: str) -> ModelError:
        return ModelError(
            f"{self._name} is no GGUF file that can be read: {why}; expected a complete GGUF "
            "file of version 2 or 3"
        )


def _read(read: Read, name: str, *, size_bytes: int | None) -> GgufHeader:
    """Read a header; of a file whose size is known, also its tensors."""
    reader = _Reader(read, name)
    if reader.start(len(MAGIC)) != MAGIC:
        raise ModelError(
            f"{name} is another kind of file; expected a GGUF file (it begins with 'GGUF'): "
            "convert the model with llama.cpp's convert_hf_to_gguf.py"
        )
    version = reader.number("I")
    if version not in {2, 3}:
        raise reader.broken(f"its version is {version}")
    tensors, pairs = reader.number("Q"), reader.number("Q")
    if tensors > _MAX_TENSORS or pairs > _MAX_PAIRS:
        raise reader.broken(f"it claims {tensors} tensors and {pairs} values")
    found = dict(_pairs(reader, pairs, whole=size_bytes is not None))
    architecture = found.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise reader.broken("it does not name its architecture")
    pooling = found.get(f"{architecture}.pooling_type")
    elements: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    if size_bytes is not None:
        elements, shapes = _tensors(reader, tensors, found, size_bytes)
    return GgufHeader(
        architecture=architecture,
        context_tokens=_count(found.get(f"{architecture}.context_length")),
        pooling=pooling if isinstance(pooling, int) else None,
        splits=_count(found.get("split.count")) or 1,
        elements=elements,
        adapter=_adapter(found),
        shapes=shapes,
    )


def _pairs(reader: _Reader, count: int, *, whole: bool) -> Iterator[tuple[str, Any]]:
    named = False
    for _ in range(count):
        key = reader.text(_MAX_KEY_BYTES)
        kind = reader.number("I")
        # Converters write what a model is before its vocabulary, which may be megabytes. Text
        # keys of quantised files that come after it are not needed to tell what the model is.
        if not whole and named and key == "tokenizer.ggml.tokens":
            return
        value = reader.value(kind)
        named = named or key == "general.architecture"
        if key.startswith(_WANTED) or key.endswith(_WANTED_ENDS):
            yield key, value


def _tensors(
    reader: _Reader, tensors: int, values: Mapping[str, Any], size_bytes: int
) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Read what tensors there are, and see whether the file is long enough to hold them.

    Returns:
        Type to the number of its elements, and tensor to its dimensions.
    """
    if not tensors:
        raise reader.broken("it has no weights")
    found: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    end = 0
    for _ in range(tensors):
        tensor = reader.text(_MAX_KEY_BYTES)
        dimensions = reader.number("I")
        if dimensions > 8:
            raise reader.broken(f"a tensor of {dimensions} dimensions")
        shapes[tensor] = tuple(reader.number("Q") for _ in range(dimensions))
        count = math.prod(shapes[tensor])
        number = reader.number("I")
        name, block, block_bytes = TENSOR_TYPES.get(number, (f"type {number}", 1, 0))
        end = max(end, reader.number("Q") + count // block * block_bytes)
        found[name] = found.get(name, 0) + count
    alignment = _count(values.get("general.alignment")) or _ALIGNMENT
    needed = -(-reader.position // alignment) * alignment + end
    if needed > size_bytes:
        raise reader.broken(f"it was cut: it has {size_bytes} bytes, and its weights need {needed}")
    return found, shapes


def _adapter(values: Mapping[str, Any]) -> str:
    if values.get("general.type") != "adapter":
        return ""
    return str(values.get("adapter.type") or "unknown")


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
