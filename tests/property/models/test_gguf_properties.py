"""Whatever bytes are there: a header, or a `ModelError`; never another error, never much memory."""

import io
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from sits.models import ModelError
from sits.models._gguf import read_gguf_start
from sits.testing import tiny_gguf

VALID = tiny_gguf("qwen3", {"qwen3.pooling_type": 3, "general.name": "a model"})


def read(data: bytes) -> None:
    try:
        header = read_gguf_start(io.BytesIO(data).read, "model.gguf")
    except ModelError:
        return
    assert header.architecture


@given(st.binary(max_size=200))
def test_any_bytes_after_the_magic(tail: bytes) -> None:
    read(b"GGUF\x03\0\0\0" + tail)


@given(st.integers(0, len(VALID) - 1), st.integers(0, 255))
def test_any_byte_changed(at: int, value: int) -> None:
    read(VALID[:at] + bytes([value]) + VALID[at + 1 :])


@given(st.integers(0, len(VALID)))
def test_any_end(end: int) -> None:
    read(VALID[:end])


@given(st.integers(0, len(VALID) - 8), st.integers(2**20, 2**64 - 1))
def test_any_length_that_is_claimed_takes_no_memory(at: int, claim: int) -> None:
    data = VALID[:at] + claim.to_bytes(8, "little") + VALID[at + 8 :]
    tracemalloc.start()
    try:
        read(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
