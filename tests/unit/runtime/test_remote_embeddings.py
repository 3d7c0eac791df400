"""Vectors of an endpoint: which answers are taken, and whose fault the others are."""

import base64
import json
import struct
from typing import Any

import pytest

from sits.runtime.remote._embeddings import body_limit_bytes, read_embeddings, too_long
from sits.runtime.remote._errors import CallerFault, EndpointDown
from sits.wire import MAX_FRAME_BYTES, Embed, Embedded, encode_frame

MIB = 1024 * 1024


def ask(count: int = 1, dimensions: int | None = None) -> Embed:
    return Embed("e", ("text",) * count, dimensions)


def body(*vectors: Any, **more: Any) -> bytes:
    data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return json.dumps({"data": data, **more}).encode()


def as_base64(*values: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def test_vectors_come_as_little_endian_floats_in_the_order_of_their_numbers() -> None:
    items = [{"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": as_base64(1.0, -2.0)}]
    given = json.dumps({"data": items, "usage": {"prompt_tokens": 7}}).encode()
    answer = read_embeddings(ask(2), given)
    assert answer.vectors == (struct.pack("<2f", 1.0, -2.0), struct.pack("<2f", 3.0, 4.5))
    assert answer.usage.prompt_tokens == 7


@pytest.mark.parametrize("told", [-1, 2**53, 2**70])
def test_a_count_of_tokens_that_nobody_can_mean_is_none(told: int) -> None:
    answer = read_embeddings(ask(), body([1.0], usage={"prompt_tokens": told}))
    assert answer.usage.prompt_tokens == 0


@pytest.mark.parametrize(
    "vectors",
    [
        [base64.b64encode(bytes(5)).decode()],
        [base64.b64encode(bytes(3)).decode()],
        ["AAAA!AA=="],  # without the mark it would be four bytes
        ["AAAAAA"],
        [""],
        [[]],
        [as_base64(1.0, float("nan"))],
        [as_base64(float("inf"), float("-inf"))],
        [[1e300]],
        [[None]],
        [[1.0], [1.0, 2.0]],
        [[1.0], as_base64(1.0, 2.0)],
        [{"a": 1}],
    ],
    ids=str,
)
def test_what_are_no_vectors_is_the_endpoints_fault(vectors: list[Any]) -> None:
    with pytest.raises(EndpointDown):
        read_embeddings(ask(len(vectors)), body(*vectors))


@pytest.mark.parametrize("given", [b"", b"[]", b'{"data": 3}', b'{"data":[{"index":0}]}', b"\xff"])
def test_what_is_no_answer_is_the_endpoints_fault(given: bytes) -> None:
    with pytest.raises(EndpointDown, match="no embeddings"):
        read_embeddings(ask(), given)


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_vectors_than_of_inputs_is_the_endpoints_fault(count: int) -> None:
    with pytest.raises(EndpointDown, match=f"2 inputs with {count} vectors"):
        read_embeddings(ask(2), body(*[[1.0]] * count))


def test_the_same_number_twice_is_the_endpoints_fault() -> None:
    items = [{"index": 0, "embedding": [1.0]}] * 2
    with pytest.raises(EndpointDown, match="numbered"):
        read_embeddings(ask(2), json.dumps({"data": items}).encode())


def test_dimensions_that_it_does_not_keep_are_no_reason_to_leave_it_out() -> None:
    """Many endpoints pass over the field: whoever leaves it out is answered."""
    assert len(read_embeddings(ask(1, dimensions=2), body([1.0, 2.0])).vectors) == 1
    with pytest.raises(CallerFault, match=r"'dimensions' is 3.* have 2") as caught:
        read_embeddings(ask(1, dimensions=3), body([1.0, 2.0]))
    assert caught.value.reason == "unsupported_dimensions"


def answer_of(inputs: int, dimensions: int) -> bytes:
    return body(*[base64.b64encode(bytes(4 * dimensions)).decode()] * inputs)


def test_as_many_inputs_as_may_be_asked_fit_with_the_vectors_of_common_models() -> None:
    answer = read_embeddings(ask(2048), answer_of(2048, 1536))
    assert isinstance(answer, Embedded)
    assert len(encode_frame(answer)) <= MAX_FRAME_BYTES


def test_too_many_inputs_for_long_vectors_are_the_callers_and_it_says_how_many_fit() -> None:
    # 15 MiB of vectors with 5 bytes around each of 12,288: 1279.
    with pytest.raises(CallerFault, match=r"2048 inputs.*3072 dimensions.*at most 1279") as caught:
        read_embeddings(ask(2048), answer_of(2048, 3072))
    assert caught.value.reason == "invalid_prompt"
    answer = read_embeddings(ask(1279), answer_of(1279, 3072))
    assert len(encode_frame(answer)) <= MAX_FRAME_BYTES


@pytest.mark.parametrize(
    ("inputs", "expected"), [(1, 5 * MIB // 4), (4, 2 * MIB), (2048, 64 * MIB)]
)
def test_a_body_may_have_a_quarter_mib_for_each_input_and_64_in_all(
    inputs: int, expected: int
) -> None:
    assert body_limit_bytes(ask(inputs)) == expected


def test_a_body_that_is_too_long_is_the_callers_only_where_fewer_inputs_would_help() -> None:
    assert isinstance(too_long(ask(100)), EndpointDown)
    fault = too_long(ask(2048))
    assert isinstance(fault, CallerFault)
    assert fault.reason == "invalid_prompt"
    assert "2048 inputs" in str(fault)
    assert "several requests" in str(fault)
