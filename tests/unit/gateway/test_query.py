"""A unit's own endpoint, in process."""

from pathlib import Path

import pytest

from sits.wire import TemplatePrompt
from tests.unit.gateway.support import says, serving

pytestmark = pytest.mark.anyio

QUERY = "/iu/chat/v1/query"
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 2},
}


async def test_a_query_is_answered_as_one_document(tmp_path: Path) -> None:
    async with serving(tmp_path, says("4", "2"), system="S") as (it, worker):
        answer = await it.client("POST", QUERY, {"inputs": {"question": "6*7"}})
    assert answer.json == {
        "id": answer.headers["x-request-id"],
        "unit": "chat",
        "revision": "0a1b2c3d4e5f",
        "tier": "hot",
        "output": "42",
        "finish_reason": "stop",
        "usage": USAGE,
    }
    prompt = TemplatePrompt("Q: {{ question }}", {"question": "6*7"}, "S")
    assert worker.requests[0].prompt == prompt


async def test_a_query_streams_its_output_in_parts(tmp_path: Path) -> None:
    async with serving(tmp_path, says("4", "", "2")) as (it, _):
        answer = await it.client("POST", QUERY, {"inputs": {}, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-sits-revision"] == "0a1b2c3d4e5f"
    first, second, last, done = answer.events
    assert [first["output"], second["output"], last["output"]] == ["4", "2", ""]
    assert [first["finish_reason"], last["finish_reason"]] == [None, "stop"]
    assert [first["usage"], last["usage"]] == [None, USAGE]
    assert set(first) == set(last)
    assert done == "[DONE]"
    assert len(answer.parts) == 3


async def test_the_unit_of_the_path_is_the_one_that_is_missing(tmp_path: Path) -> None:
    async with serving(tmp_path, says()) as (it, _):
        answer = await it.client("POST", "/iu/none/v1/query", b"not even JSON")
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
