"""A model file of any size, made on the spot: random weights of 4 bits behind a real tokenizer.

Nothing larger than SmolLM2 135M comes as a package, and what a larger model costs depends on its
size and not on what it learnt. The tokenizer and the chat template are copied, byte for byte, from
a file that has them. Every token that is not made of letters has a row of zeros, and the table of
tokens is the output, too: such a token is never the likeliest, so every answer is text and none
ends early.

Not by the `gguf` package: that takes 6 s to read a vocabulary of 49,000 tokens, and this copies it.

Source: the GGUF specification (ggml's docs/gguf.md), version 3, little endian; the names are those
that llama.cpp gives the tensors of its architecture `llama`.
"""

import math
import mmap
import random
import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sits.bench._errors import BenchError

_U32, _F32, _STRING, _ARRAY = 4, 6, 8, 9
_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TYPE_F32, _TYPE_Q4_0 = 0, 2
_MOSTLY_Q4_0 = 2
_BLOCK_WEIGHTS, _BLOCK_BYTES = 32, 18
# Half a float of 0.004: a weight is (0 to 15, less 8) times it, so a deviation of about 0.02.
_SCALE = struct.pack("<e", 0.004)
_ALIGNMENT = 32
_TOKENS = "tokenizer.ggml.tokens"
# As the tokenizer spells them: Ġ is a space. All others are signs, or parts of a character.
_LETTERS = re.compile("Ġ?[A-Za-z]+".encode())
_SPARE_BYTES = 1 << 28


@dataclass(frozen=True)
class ModelForm:
    """What a made model is like; the defaults are of one with 1.07 billion weights.

    Attributes:
        width: of the hidden state.
        layers: how many.
        inner: width within a layer's feed-forward part.
        heads: of attention; each has `width / heads` numbers.
        kv_heads: of keys and values; at most `heads`.
        context_tokens: the longest prompt and answer that it says to take.
    """

    width: int = 2048
    layers: int = 16
    inner: int = 8192
    heads: int = 32
    kv_heads: int = 8
    context_tokens: int = 8192


def make_model(source: Path, target: Path, form: ModelForm, seed: int) -> int:
    """Write a model file; the same one for the same arguments.

    Args:
        source: a GGUF file of which the tokenizer is taken.
        target: the file to write.
        form: how large it is.
        seed: of its weights.

    Returns:
        How many weights it has.

    Raises:
        BenchError: there is no room for it, or the source has no such tokenizer.
        OSError: a file cannot be read or written.
    """
    with source.open("rb") as read, mmap.mmap(read.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        tokenizer = _Tokenizer(mapped, str(source))
    tokens = tokenizer.tokens
    tensors = dict(_tensors(form, len(tokens)))
    needed = sum(_size_bytes(shape) for shape in tensors.values()) + _SPARE_BYTES
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise BenchError(
            f"{target.parent} has {free / 1e9:.2g} GB free, and a made model takes "
            f"{needed / 1e9:.2g}; free some, or set TMPDIR to a larger place"
        )
    head = _head(form, tokenizer, tensors)
    dice = random.Random(seed)  # noqa: S311 - weights, no secret
    with target.open("wb") as write:
        write.write(head + bytes(-len(head) % _ALIGNMENT))
        for name, shape in tensors.items():
            data = _weights(dice, shape)
            if name == "token_embd.weight":
                _silence(data, tokens, shape[0])
            write.write(data + bytes(-len(data) % _ALIGNMENT))
    return sum(math.prod(shape) for shape in tensors.values())


def _tensors(form: ModelForm, tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each tensor's name and dimensions, in ggml's order."""
    width, inner = form.width, form.inner
    shared = width // form.heads * form.kv_heads
    yield "token_embd.weight", (width, tokens)
    for layer in range(form.layers):
        for name, shape in (
            ("attn_norm", (width,)),
            ("attn_q", (width, width)),
            ("attn_k", (width, shared)),
            ("attn_v", (width, shared)),
            ("attn_output", (width, width)),
            ("ffn_norm", (width,)),
            ("ffn_gate", (width, inner)),
            ("ffn_up", (width, inner)),
            ("ffn_down", (inner, width)),
        ):
            yield f"blk.{layer}.{name}.weight", shape
    yield "output_norm.weight", (width,)


def _size_bytes(shape: tuple[int, ...]) -> int:
    if len(shape) == 1:
        return 4 * shape[0]
    return math.prod(shape) // _BLOCK_WEIGHTS * _BLOCK_BYTES


def _weights(dice: random.Random, shape: tuple[int, ...]) -> bytearray:
    """Return a norm of ones, or a matrix that is drawn."""
    if len(shape) == 1:
        return bytearray(struct.pack("<f", 1.0) * shape[0])
    data = bytearray(dice.randbytes(_size_bytes(shape)))
    blocks = len(data) // _BLOCK_BYTES
    for at, byte in enumerate(_SCALE):
        data[at::_BLOCK_BYTES] = bytes([byte]) * blocks
    return data


def _silence(data: bytearray, tokens: list[bytes], width: int) -> None:
    row_bytes = width // _BLOCK_WEIGHTS * _BLOCK_BYTES
    zeros = bytes(row_bytes)
    for number, token in enumerate(tokens):
        if not _LETTERS.fullmatch(token):
            data[number * row_bytes : (number + 1) * row_bytes] = zeros


def _head(form: ModelForm, tokenizer: "_Tokenizer", tensors: dict[str, tuple[int, ...]]) -> bytes:
    """Return all that comes before the weights."""
    numbers = {
        "general.file_type": _MOSTLY_Q4_0,
        "llama.context_length": form.context_tokens,
        "llama.embedding_length": form.width,
        "llama.block_count": form.layers,
        "llama.feed_forward_length": form.inner,
        "llama.attention.head_count": form.heads,
        "llama.attention.head_count_kv": form.kv_heads,
    }
    own = [_text(b"general.architecture") + struct.pack("<I", _STRING) + _text(b"llama")]
    own += [_text(name.encode()) + struct.pack("<II", _U32, n) for name, n in numbers.items()]
    own.append(_text(b"llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", _F32, 1e-5))
    own += tokenizer.pairs
    infos, at = b"", 0
    for name, shape in tensors.items():
        kind = _TYPE_F32 if len(shape) == 1 else _TYPE_Q4_0
        infos += _text(name.encode())
        infos += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at)
        at += -(-_size_bytes(shape) // _ALIGNMENT) * _ALIGNMENT
    return b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(own)) + b"".join(own) + infos


def _text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


class _Tokenizer:
    """The part of a GGUF file that says how text becomes tokens.

    Attributes:
        pairs: its keys with their values, as they are in the file.
        tokens: in its own spelling, by number.
    """

    def __init__(self, data: mmap.mmap, name: str) -> None:
        self._data = data
        self._at = 8
        self.pairs: list[bytes] = []
        self.tokens: list[bytes] = []
        try:
            _tensors, count = self._numbers("<QQ")
            for _ in range(count):
                self._pair()
        except (struct.error, KeyError) as error:
            raise BenchError(f"{name} cannot be read ({error}); expected a GGUF file") from error
        if not self.tokens:
            raise BenchError(f"{name} has no {_TOKENS}; expected a GGUF file with a tokenizer")

    def _pair(self) -> None:
        begin = self._at
        key = self._take_text().decode()
        (kind,) = self._numbers("<I")
        tokens = self._pass(kind)
        if key.startswith("tokenizer."):
            self.pairs.append(self._data[begin : self._at])
        if key == _TOKENS:
            self.tokens = tokens

    def _pass(self, kind: int) -> list[bytes]:
        """Go over a value; return its texts, if it is an array of them."""
        if kind == _STRING:
            self._take_text()
        elif kind == _ARRAY:
            kind, count = self._numbers("<IQ")
            if kind == _STRING:
                return [self._take_text() for _ in range(count)]
            self._at += count * _SCALAR_BYTES[kind]
        else:
            self._at += _SCALAR_BYTES[kind]
        return []

    def _take_text(self) -> bytes:
        (size,) = self._numbers("<Q")
        self._at += size
        return self._data[self._at - size : self._at]

    def _numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found
