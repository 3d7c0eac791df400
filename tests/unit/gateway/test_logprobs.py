"""How probable tokens were, in OpenAI's form, streamed and whole."""

import math
from pathlib import Path
from typing import Any

import pytest

from sits.wire import TokenLogprob
from tests.unit.gateway.support import Answer, Say, serving

pytestmark = pytest.mark.anyio

# "é" is two bytes, which two tokens bring.
FIRST = TokenLogprob(10, b"caf", -0.25, ((b"caf", -0.25), (b"th", -2.0)))
HALF = TokenLogprob(11, b"\xc3", -0.5, ((b"\xc3", -0.5), (b"e", -math.inf)))
OTHER = TokenLogprob(12, b"\xa9\xe2\x80\xa8", -1.5, ())


def entry(token: str, logprob: float, raw: list[int], **more: Any) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": raw, **more}


CONTENT = [
    entry(
        "caf",
        -0.25,
        [99, 97, 102],
        top_logprobs=[entry("caf", -0.25, [99, 97, 102]), entry("th", -2.0, [116, 104])],
    ),
    entry(
        "\ufffd",
        -0.5,
        [0xC3],
        top_logprobs=[entry("\ufffd", -0.5, [0xC3]), entry("e", -9999.0, [101])],
    ),
    entry("\ufffd\u2028", -1.5, [0xA9, 0xE2, 0x80, 0xA8], top_logprobs=[]),
]


async def coffee(say: Say) -> None:
    await say("caf", (10,), (FIRST,))
    await say("", (11,), (HALF,))
    await say("é\u2028", (12,), (OTHER,))
    await say("", ())
    await say.finish()


async def ask(folder: Path, **fields: Any) -> Answer:
    async with serving(folder, coffee) as (it, worker):
        answer = await it.client.chat(**fields)
    assert worker.requests[0].sampling.top_logprobs == fields.get("top_logprobs")
    return answer


async def test_a_stream_tells_them_with_their_pieces_also_with_those_without_text(
    tmp_path: Path,
) -> None:
    answer = await ask(tmp_path, stream=True, logprobs=True, top_logprobs=2)
    *chunks, last, done = answer.events
    assert done == "[DONE]"
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [choice["delta"].get("content") for choice in choices] == ["caf", "", "é\u2028"]
    assert [choice["logprobs"] for choice in choices] == [
        {"content": [each], "refusal": None} for each in CONTENT
    ]
    assert last["choices"][0]["logprobs"] is None
    # No client may take an event for two lines.
    for line in answer.body.decode().split("\n\n"):
        assert len(line.splitlines()) <= 1


async def test_a_document_tells_all_of_them(tmp_path: Path) -> None:
    answer = await ask(tmp_path, logprobs=True, top_logprobs=2)
    (choice,) = answer.json["choices"]
    assert choice["message"]["content"] == "café\u2028"
    assert choice["logprobs"] == {"content": CONTENT, "refusal": None}


@pytest.mark.parametrize("stream", [False, True])
async def test_nobody_is_told_who_did_not_ask(tmp_path: Path, stream: bool) -> None:
    answer = await ask(tmp_path, stream=stream)
    events = answer.events[:-1] if stream else [answer.json]
    assert {str(event["choices"][0]["logprobs"]) for event in events} == {"None"}
    assert len(events) == (3 if stream else 1)
