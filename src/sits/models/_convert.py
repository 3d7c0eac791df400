"""Makes a GGUF file of a builtin that comes as safetensors: a BERT encoder with WordPieces.

Weights become F16 (norms, biases and the small tables stay F32), as llama.cpp's own converter
writes them; half the size, and embeddings that differ from F32's in the sixth digit. numpy only:
torch stays out of the platform.

Source: llama.cpp's convert_hf_to_gguf.py (the BertModel class) for the names of keys and the form
of the vocabulary; this reads the tokenizer's JSON instead of running it.
"""

import json
from pathlib import Path
from typing import Any

from sits.models._errors import ModelError

VERSION = 1
_MEAN, _CLS = 1, 2
_NORMAL, _CONTROL = 1, 3
_F16 = 1
_F32_TABLES = ("position_embd", "token_types")
# The tokenizer's own names of its special tokens, and the keys that llama.cpp looks for.
_SPECIAL = {
    "unk_token": "unknown",
    "sep_token": "seperator",
    "pad_token": "padding",
    "cls_token": "cls",
    "mask_token": "mask",
}


def convert_encoder(source: Path, target: Path) -> None:
    """Write a GGUF file of an encoder.

    Args:
        source: its `model.safetensors`, with its `config.json`, `tokenizer.json` and
            `tokenizer_config.json` beside it.
        target: the file to write; not synced.

    Raises:
        ModelError: a library is not installed, or it is another kind of model.
        OSError: a file cannot be read or written.
    """
    try:
        import gguf  # noqa: PLC0415 - only taking this builtin in needs it, once
        import safetensors  # noqa: PLC0415
    except ImportError as error:
        raise ModelError(
            f"{source.name} cannot be converted: {error.name} is not installed; "
            "pip install 'sits[llamacpp]'"
        ) from error
    directory = source.parent
    config = _load(directory / "config.json")
    if config.get("model_type") != "bert":
        raise ModelError(f"{source} is of type {config.get('model_type')}; expected bert")
    writer = gguf.GGUFWriter(target, "bert")
    _write_shape(writer, config, directory)
    _write_vocabulary(writer, directory)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    with safetensors.safe_open(source, framework="numpy") as tensors:
        for name in tensors.keys():  # noqa: SIM118 - it is no mapping
            found = names.get_name(name, try_suffixes=(".weight", ".bias"))
            # The pooler is for BERT's training, and positions are counted by the engine.
            if found is None or name.startswith("pooler.") or name.endswith("position_ids"):
                continue
            writer.add_tensor(found, _weights(found, tensors.get_tensor(name)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(name: str, values: Any) -> Any:
    wide = values.ndim < 2 or name.startswith(_F32_TABLES)
    return values.astype("float32" if wide else "float16")


def _write_shape(writer: Any, config: dict[str, Any], directory: Path) -> None:
    pooling = _load(directory / "1_Pooling" / "config.json")
    writer.add_name(directory.parent.name.replace("_", "-"))
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_uint32("bert.pooling_type", _CLS if pooling["pooling_mode_cls_token"] else _MEAN)
    writer.add_file_type(_F16)
    writer.add_token_type_count(config["type_vocab_size"])


def _write_vocabulary(writer: Any, directory: Path) -> None:
    tokenizer = _load(directory / "tokenizer.json")
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    ordered = sorted(vocabulary, key=lambda token: vocabulary[token])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token if token in special else _phantom(token) for token in ordered])
    writer.add_token_types([_CONTROL if token in special else _NORMAL for token in ordered])
    names = _load(directory / "tokenizer_config.json")
    for name, key in _SPECIAL.items():
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", vocabulary[names[name]])


def _phantom(token: str) -> str:
    """Return a WordPiece as llama.cpp keeps it: the mark is on what begins a word."""
    return token[2:] if token.startswith("##") else f"\u2581{token}"


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
