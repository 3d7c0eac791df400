"""Adapters in the store: pinned, checked against their model, taken in, kept."""

import os
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import pytest

from sits.models import ModelError, ModelKind, ModelPin, ModelStore
from sits.spec import parse_adapter_reference, parse_model_reference
from sits.testing import tiny_adapter, tiny_gguf

LONG_AGO = 1_000_000_000
WIDTH, HEIGHT, RANK = 8, 6, 2
GOOD = {"output.weight.lora_a": (RANK, WIDTH), "output.weight.lora_b": (HEIGHT, RANK)}


def write(path: Path, tensors: Mapping[str, tuple[int, int]], kind: str = "lora") -> Path:
    """Write a model, or with a kind an adapter, whose tensors have these NumPy shapes."""
    writer = gguf.GGUFWriter(path, "llama")
    if kind:
        writer.add_type("adapter")
        writer.add_string("adapter.type", kind)
    for name, shape in tensors.items():
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", prepare=None)


@pytest.fixture
def model(store: ModelStore, tmp_path: Path) -> ModelPin:
    path = write(tmp_path / "model.gguf", {"output.weight": (HEIGHT, WIDTH)}, kind="")
    pin = store.pin(parse_model_reference(f"file://{path}"))
    store.pull(pin, lambda _progress: None)
    return pin


def pin_adapter(store: ModelStore, model: ModelPin, path: Path) -> ModelPin:
    return store.pin_adapter(parse_adapter_reference(f"file://{path}"), model)


def test_an_adapter_is_pinned_taken_in_and_found(
    store: ModelStore, model: ModelPin, tmp_path: Path
) -> None:
    path = write(tmp_path / "tone.gguf", GOOD)
    pin = pin_adapter(store, model, path)
    assert (pin.kind, pin.size_bytes) == (ModelKind.ADAPTER, path.stat().st_size)
    assert store.find(pin) is None
    store.pull(pin, lambda _progress: None)
    found = store.find(pin)
    assert found is not None
    assert found.path.read_bytes() == path.read_bytes()
    (listed,) = [item for item in store.list_models() if item.digest == pin.digest]
    assert (listed.state, listed.representation) == ("ready", "LoRA")


def test_nothing_is_prepared_for_an_adapter(tmp_path: Path, model: ModelPin) -> None:
    store = ModelStore(tmp_path / "store", prepare=("false",))
    pin = pin_adapter(store, model, write(tmp_path / "tone.gguf", GOOD))
    store.pull(pin, lambda _progress: None)
    assert store.find(pin) is not None
    assert store.collect().freed_bytes > 0
    assert store.find(pin) is None


def test_an_adapter_that_is_needed_is_kept(
    store: ModelStore, model: ModelPin, tmp_path: Path
) -> None:
    pin = pin_adapter(store, model, write(tmp_path / "tone.gguf", GOOD))
    store.keep(tmp_path, [pin.digest])
    store.pull(pin, lambda _progress: None)
    store.collect()
    assert store.find(pin) is not None


def test_a_link_to_a_file_of_another_name_is_taken(
    store: ModelStore, model: ModelPin, tmp_path: Path
) -> None:
    write(tmp_path / "0123abcd", GOOD)
    (tmp_path / "tone.gguf").symlink_to(tmp_path / "0123abcd")
    pin = pin_adapter(store, model, tmp_path / "tone.gguf")
    store.pull(pin, lambda _progress: None)
    assert store.find(pin) is not None


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({**GOOD, "output.weight.lora_a": (RANK, WIDTH + 1)}, r"output.weight is \(9, 6\)"),
        ({**GOOD, "output.weight.lora_b": (HEIGHT + 1, RANK)}, r"the model's is \(8, 6\)"),
        ({"output.weight.lora_a": (RANK, WIDTH)}, "has no output.weight.lora_b"),
        ({**GOOD, "blk.9.attn_q.weight.lora_a": (RANK, WIDTH)}, "blk.9.attn_q.weight, which the"),
    ],
)
def test_an_adapter_of_another_model_is_refused(
    store: ModelStore,
    model: ModelPin,
    tmp_path: Path,
    tensors: Mapping[str, tuple[int, int]],
    words: str,
) -> None:
    path = write(tmp_path / "tone.gguf", tensors)
    with pytest.raises(ModelError, match=words) as raised:
        pin_adapter(store, model, path)
    assert f"adapter 'file://{path}' does not fit to model '{model.reference}'" in str(raised.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (tiny_gguf(), "is no adapter"),
        (tiny_adapter("", "qwen3"), "architecture 'qwen3', and the model is 'llama'"),
        (b"PK", "another kind of file"),
        (None, "No such file"),
    ],
)
def test_what_is_no_adapter_for_the_model_is_refused(
    store: ModelStore, model: ModelPin, tmp_path: Path, data: bytes | None, words: str
) -> None:
    path = tmp_path / "tone.gguf"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ModelError, match=words) as raised:
        pin_adapter(store, model, path)
    assert f"file://{path}" in str(raised.value)


def test_another_kind_of_adapter_is_refused(
    store: ModelStore, model: ModelPin, tmp_path: Path
) -> None:
    path = write(tmp_path / "tone.gguf", GOOD, kind="control_vector")
    with pytest.raises(ModelError, match="of the kind 'control_vector'"):
        pin_adapter(store, model, path)


def test_a_model_that_is_not_here_yet_is_not_compared(store: ModelStore, tmp_path: Path) -> None:
    away = ModelPin("builtin://x", "sha256:" + "0" * 64, 1, ModelKind.CHAT)
    path = write(tmp_path / "tone.gguf", {"blk.9.attn_q.weight.lora_a": (RANK, WIDTH)})
    assert pin_adapter(store, away, path).kind is ModelKind.ADAPTER


def test_adapters_for_vectors_and_from_elsewhere_are_refused(
    store: ModelStore, model: ModelPin, tmp_path: Path
) -> None:
    encoder = ModelPin("builtin://x", "sha256:" + "0" * 64, 1, ModelKind.EMBEDDING)
    with pytest.raises(ModelError, match="makes vectors"):
        pin_adapter(store, encoder, write(tmp_path / "tone.gguf", GOOD))
    for text in ("adapter://tone@v2", "huggingface://org/tone"):
        with pytest.raises(ModelError, match="expected a file"):
            store.pin_adapter(parse_adapter_reference(text), model)


def test_an_adapter_is_no_model(store: ModelStore, tmp_path: Path) -> None:
    path = write(tmp_path / "tone.gguf", GOOD)
    with pytest.raises(ModelError, match="the adapter as `lora`"):
        store.pin(parse_model_reference(f"file://{path}"))


def test_a_file_that_changed_is_called_an_adapter(
    store: ModelStore, model: ModelPin, tmp_path: Path
) -> None:
    path = write(tmp_path / "tone.gguf", GOOD)
    pin = pin_adapter(store, model, path)
    write(path, {**GOOD, "output.weight.lora_a": (RANK + 1, WIDTH)})
    with pytest.raises(ModelError, match=r"adapter 'file://.*another file than when"):
        store.pull(pin, lambda _progress: None)
