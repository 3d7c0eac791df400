"""What a GGUF file says of itself, from bytes that the test writes, or that `gguf` writes."""

import io
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from sits.models import ModelError, ModelKind, kind_of, read_gguf_file
from sits.models._gguf import GgufHeader, read_gguf_start
from sits.testing import tiny_gguf


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_header_that_the_gguf_package_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_context_length(40960)
    writer.add_token_list(["a", "b", "c"])
    writer.add_uint32("qwen3.pooling_type", 3)
    writer.add_tensor("output.weight", np.zeros((4, 32), np.float16))
    writer.add_tensor("output_norm.weight", np.zeros(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_gguf_file(path)
    shapes = {"output.weight": (32, 4), "output_norm.weight": (32,)}
    assert header == GgufHeader("qwen3", 40960, 3, 1, {"F16": 128, "F32": 32}, shapes=shapes)
    assert header.representation == "F16"


def test_only_the_start_is_read_to_tell_what_a_model_is() -> None:
    data = tiny_gguf("bert", {"bert.pooling_type": 1})
    before_vocabulary = data.index(b"tokenizer.ggml.tokens")
    stream = io.BytesIO(data)
    header = read_gguf_start(stream.read, "model.gguf")
    assert (header.architecture, header.pooling, header.context_tokens) == ("bert", 1, 128)
    assert stream.tell() <= before_vocabulary + len("tokenizer.ggml.tokens") + 4


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "another kind of file"),
        (b"PK\x03\x04" + bytes(64), "another kind of file"),
        (b"GGUF", "ends too early"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "its version is 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "its version is"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1), "it claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**63), "a text of"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "does not name its architecture"),
        (tiny_gguf()[:-200], "ends too early"),
    ],
)
def test_what_is_no_whole_header_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        read_gguf_file(write(tmp_path / "model.gguf", data))


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (GgufHeader("llama"), ModelKind.CHAT),
        (GgufHeader("qwen3", pooling=0), ModelKind.CHAT),
        (GgufHeader("qwen3", pooling=3), ModelKind.EMBEDDING),
        (GgufHeader("bert", pooling=1), ModelKind.EMBEDDING),
        (GgufHeader("nomic-bert"), ModelKind.EMBEDDING),
    ],
)
def test_the_kind_follows_from_architecture_and_pooling(
    header: GgufHeader, kind: ModelKind
) -> None:
    assert kind_of(header, "file:///m.gguf") is kind


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (GgufHeader("t5"), "encoder with a decoder"),
        (GgufHeader("clip"), "turns images"),
        (GgufHeader("llada"), "diffusion"),
        (GgufHeader("flux"), "does not know it"),
        (GgufHeader("bert", pooling=4), "reranker"),
        (GgufHeader("llama", splits=3), "one of 3 parts"),
    ],
)
def test_what_the_engine_cannot_run_is_refused_with_what_it_can(
    header: GgufHeader, words: str
) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        kind_of(header, "file:///m.gguf")
    assert "file:///m.gguf" in str(caught.value)
    assert "expected a single file" in str(caught.value) or "for embeddings" in str(caught.value)


@pytest.mark.parametrize("cut_bytes", [1, 100, 128])
def test_a_file_that_was_cut_is_refused_and_called_as_it_was_asked_for(
    tmp_path: Path, cut_bytes: int
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_gguf()[:-cut_bytes])
    with pytest.raises(ModelError, match=r"^model 'file:///m\.gguf' is no GGUF.*it was cut"):
        read_gguf_file(path, "model 'file:///m.gguf'")


def test_a_file_without_weights_is_refused(tmp_path: Path) -> None:
    data = bytearray(tiny_gguf())
    data[8:16] = bytes(8)  # the number of its tensors
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="it has no weights"):
        read_gguf_file(path)
