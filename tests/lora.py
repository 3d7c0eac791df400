"""Low-rank adapters of the real model's shapes, and the same product merged into its weights.

Made with NumPy from the definition (W + scale * alpha / rank * B A), so that nothing expected
comes from the engine itself.
"""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Factors = Mapping[str, tuple[Array, Array]]

RANK, ALPHA = 4, 8.0
# SmolLM2 135M: (outputs, inputs) of some of its tensors, as its configuration has them.
_TARGETS = {
    "blk.20.attn_v.weight": (192, 576),
    "blk.29.attn_output.weight": (576, 576),
    "blk.29.ffn_down.weight": (576, 1536),
}


def draw_factors(seed: int, *, outputs: int = 0, size: float = 0.05) -> Factors:
    """Return random A (rank, inputs) and B (outputs, rank) for each tensor.

    Args:
        seed: of the numbers.
        outputs: instead of the model's own; 0: the model's.
        size: the standard deviation of each number.
    """
    draw = np.random.default_rng(seed)

    def factor(*shape: int) -> Array:
        return (draw.standard_normal(shape) * size).astype(np.float32)

    return {
        name: (factor(RANK, inputs), factor(outputs or height, RANK))
        for name, (height, inputs) in _TARGETS.items()
    }


def write_adapter(
    path: Path, factors: Factors, *, architecture: str = "llama", kind: str = "lora"
) -> str:
    """Write an adapter as llama.cpp's converter does; return its path."""
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", kind)
    writer.add_float32("adapter.lora.alpha", ALPHA)
    for name, (a, b) in factors.items():
        writer.add_tensor(f"{name}.lora_a", a)
        writer.add_tensor(f"{name}.lora_b", b)
    _finish(writer)
    return str(path)


def write_models(model: str, merged: Mapping[Path, tuple[Factors, float]]) -> None:
    """Write copies of a model whose targets are F32, each with an adapter merged into them.

    Args:
        model: a GGUF file of SmolLM2 135M.
        merged: for each file to write, the adapter and its scale.
    """
    reader = gguf.GGUFReader(model)
    values = [
        (field.name, field.contents(), field.types[0], field.types[-1])
        for field in reader.fields.values()
        if not field.name.startswith("GGUF.") and field.name != "general.architecture"
    ]
    for path, (factors, scale) in merged.items():
        writer = gguf.GGUFWriter(str(path), "llama")
        for name, value, kind, inner in values:
            is_array = kind == gguf.GGUFValueType.ARRAY
            writer.add_key_value(name, value, kind, inner if is_array else None)
        for tensor in reader.tensors:
            if tensor.name in _TARGETS:
                a, b = factors[tensor.name]
                plain = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
                change = np.float32(scale * ALPHA / RANK) * (b @ a)
                writer.add_tensor(tensor.name, plain + change)
            else:
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        _finish(writer)


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
