"""GGUF files of a few hundred bytes: what tests deploy where no engine runs the model."""

import struct
from collections.abc import Mapping

_U32, _TEXT, _ARRAY = 4, 8, 9


def tiny_gguf(
    architecture: str = "llama",
    values: Mapping[str, int | str] | None = None,
    *,
    tensor_type: int = 0,
    padding_bytes: int = 0,
) -> bytes:
    """Return a GGUF file with a header that is right, and one tensor of 32 numbers.

    No engine can run it; everything else takes it for a model.

    Args:
        architecture: what it says that it is.
        values: more of its keys.
        tensor_type: ggml's number of its tensor's type.
        padding_bytes: appended, to make files of some size and of different digests.
    """
    pairs: dict[str, int | str] = {
        "general.architecture": architecture,
        f"{architecture}.context_length": 128,
        **(values or {}),
    }
    body = b"".join(_text(key) + _value(value) for key, value in pairs.items())
    tokens = _text("tokenizer.ggml.tokens") + struct.pack("<IIQ", _ARRAY, _TEXT, 2)
    tokens += _text("a") + _text("b")
    tensor = _text("token_embd.weight") + struct.pack("<IQIQ", 1, 32, tensor_type, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs) + 1) + body + tokens + tensor
    return head + bytes(-len(head) % 32) + bytes(128) + bytes(padding_bytes)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: int | str) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _TEXT) + _text(value)
    return struct.pack("<II", _U32, value)
