"""What the load generator was sent: when it was there, and what it says."""

import pytest

from sits.bench import BenchError
from sits.bench._client import Answer

# A head whose last bytes look like the end of a body in chunks.
HEAD = b"HTTP/1.1 200 OK\r\nX-Sits-Tier: warm\r\nTransfer-Encoding: chunked\r\nMax: 100\r\n\r\n"
EVENT = 'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 7}}\n\ndata: [DONE]\n\n'


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def event(text: str) -> bytes:
    return (EVENT % text).encode()


def arrive(*parts: bytes) -> Answer:
    """Return an answer of parts that came at 1, 2, 3 ... seconds."""
    answer = Answer(sent_s=0.5)
    for number, part in enumerate(parts):
        assert not answer.whole
        answer.take(part, number + 1.0)
    return answer


def test_a_text_is_there_when_its_last_byte_is() -> None:
    split = event("there")
    answer = arrive(
        HEAD,
        chunk(event("")),
        chunk(b": comment\n\n" + event("Hello")) + chunk(split[:20]),
        chunk(split[20:])[:-3],
        chunk(split[20:])[-3:] + chunk(USAGE),
        b"0\r\n\r\n",
    )
    assert answer.whole
    # The last three bytes of the fourth part are one of the event, and the chunk's end.
    assert answer.pieces == [(3.0, "Hello"), (5.0, "there")]
    assert answer.first_piece_ms == 2500.0
    assert (answer.status, answer.headers["x-sits-tier"]) == (200, "warm")
    assert answer.usage == {"prompt_tokens": 7}


def test_a_head_that_ends_like_a_body_is_not_the_whole() -> None:
    assert not arrive(HEAD).whole
    assert arrive(HEAD, b"0\r\n\r\n").whole


def test_a_document_is_whole_at_its_length() -> None:
    body = b'{"usage": {"completion_tokens": 3}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert not arrive(head + body[:-1]).whole
    answer = arrive(head, body)
    assert answer.whole
    assert answer.document["usage"]["completion_tokens"] == 3


def test_an_error_and_an_answer_without_text_are_told() -> None:
    refused = arrive(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\ncome back")
    with pytest.raises(BenchError, match="come back"):
        _ = refused.pieces
    with pytest.raises(BenchError, match="come back"):
        _ = refused.document
    with pytest.raises(BenchError, match="no text"):
        _ = arrive(HEAD, chunk(event("")) + b"0\r\n\r\n").pieces
