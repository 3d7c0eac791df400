"""A BERT of a few thousand random weights, and its arithmetic in NumPy: what vectors must be.

Written from the published description of BERT (attention in both directions, layer norm after
each part, GELU by the error function), so that nothing expected comes from the engine itself.
"""

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", "mat", "on", "!", ".")
CLS, SEP = WORDS.index("[CLS]"), WORDS.index("[SEP]")
WIDTH, HEADS, INNER, LAYERS, LONGEST = 64, 2, 128, 2, 32
_EPSILON = 1e-12

Array = npt.NDArray[np.float64]


class TinyBert:
    """The weights, by the names that GGUF files have."""

    def __init__(self) -> None:
        draw = np.random.default_rng(20261201)

        def weight(*shape: int) -> npt.NDArray[np.float32]:
            return (draw.standard_normal(shape) * 0.2).astype(np.float32)

        self.tensors = {
            "token_embd.weight": weight(len(WORDS), WIDTH),
            "position_embd.weight": weight(LONGEST, WIDTH),
            "token_types.weight": weight(2, WIDTH),
            "token_embd_norm.weight": 1 + weight(WIDTH),
            "token_embd_norm.bias": weight(WIDTH),
        }
        shapes = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (WIDTH, WIDTH),
            "attn_v": (WIDTH, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        for layer in range(LAYERS):
            for name, shape in shapes.items():
                self.tensors[f"blk.{layer}.{name}.weight"] = weight(*shape)
                self.tensors[f"blk.{layer}.{name}.bias"] = weight(shape[0])
            for name in ("attn_output_norm", "layer_output_norm"):
                self.tensors[f"blk.{layer}.{name}.weight"] = 1 + weight(WIDTH)
                self.tensors[f"blk.{layer}.{name}.bias"] = weight(WIDTH)

    def write(self, path: Path, pooling: int | None) -> str:
        """Write a GGUF file, with llama.cpp's number of a pooling; return its path."""
        writer = gguf.GGUFWriter(str(path), "bert")
        writer.add_block_count(LAYERS)
        writer.add_context_length(LONGEST)
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(INNER)
        writer.add_head_count(HEADS)
        writer.add_layer_norm_eps(_EPSILON)
        writer.add_causal_attention(False)
        if pooling is not None:
            writer.add_uint32("bert.pooling_type", pooling)
        writer.add_token_type_count(2)
        writer.add_tokenizer_model("bert")
        writer.add_token_list([_spelling(word) for word in WORDS])
        writer.add_token_types([3 if word.startswith("[") else 1 for word in WORDS])
        writer.add_bos_token_id(CLS)
        writer.add_sep_token_id(SEP)
        writer.add_unk_token_id(WORDS.index("[UNK]"))
        writer.add_pad_token_id(WORDS.index("[PAD]"))
        for name, value in self.tensors.items():
            writer.add_tensor(name, value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return str(path)

    def embed(self, tokens: list[int], *, pool_cls: bool = False) -> Array:
        """Return the vector of one input, of length 1."""
        at = self._at
        rows = at("token_embd.weight")[tokens] + at("position_embd.weight")[: len(tokens)]
        hidden = self._norm(rows + at("token_types.weight")[0], "token_embd_norm")
        for layer in range(LAYERS):
            hidden = self._layer(hidden, f"blk.{layer}.")
        pooled = hidden[0] if pool_cls else hidden.mean(axis=0)
        return np.asarray(pooled / np.linalg.norm(pooled))

    def _layer(self, hidden: Array, prefix: str) -> Array:
        def heads(name: str) -> Array:
            rows = self._linear(hidden, prefix + name)
            return rows.reshape(len(rows), HEADS, -1).transpose(1, 0, 2)

        queries, keys, values = heads("attn_q"), heads("attn_k"), heads("attn_v")
        scores = queries @ keys.transpose(0, 2, 1) / math.sqrt(WIDTH / HEADS)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ values).transpose(1, 0, 2).reshape(len(hidden), WIDTH)
        mixed = self._linear(mixed, prefix + "attn_output")
        hidden = self._norm(hidden + mixed, prefix + "attn_output_norm")
        inner = self._linear(hidden, prefix + "ffn_up")
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        return self._norm(
            hidden + self._linear(inner, prefix + "ffn_down"), prefix + "layer_output_norm"
        )

    def _linear(self, rows: Array, name: str) -> Array:
        return np.asarray(rows @ self._at(f"{name}.weight").T + self._at(f"{name}.bias"))

    def _norm(self, rows: Array, name: str) -> Array:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
        return np.asarray(scaled * self._at(f"{name}.weight") + self._at(f"{name}.bias"))

    def _at(self, name: str) -> Any:
        return self.tensors[name].astype(np.float64)


def _spelling(word: str) -> str:
    """Return how a GGUF file spells a word piece: the mark is on those that begin a word."""
    if word.startswith("["):
        return word
    return word.removeprefix("##") if word.startswith("##") else f"\u2581{word}"
