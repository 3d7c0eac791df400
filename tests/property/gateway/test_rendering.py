"""Whatever the pieces, the client reads the text that was made."""

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sits.gateway._job import Facts, Renderer
from sits.gateway._render_chat import ChatRenderer
from sits.gateway._render_query import QueryRenderer
from sits.wire import FinishReason, Piece, Stage, Tier, Usage

# Whole characters, as pieces have; what JSON and event streams find special among them.
TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\n\r"\\\u2028\u2029\x85 :'))
)
FACTS = st.builds(
    Facts,
    request_id=st.text("abcXYZ019._-", min_size=1),
    created_s=st.integers(0, 2**40),
    unit=st.text(min_size=1),
    revision=st.text("0123456789abcdef", min_size=1),
    tier=st.sampled_from(Tier),
)
USAGE = st.builds(Usage, st.integers(0, 10**6), st.integers(0, 10**6))
REASON = st.sampled_from(FinishReason)


def stream(renderer: Renderer, texts: list[str], reason: FinishReason, usage: Usage) -> bytes:
    pieces = [Piece(seq, text, (), Stage.DECODE, 0) for seq, text in enumerate(texts)]
    opening = b"" if pieces else renderer.opening()
    return opening + b"".join(map(renderer.piece, pieces)) + renderer.closing(reason, usage)


def parse(body: bytes) -> list[Any]:
    """Read an event stream by its own rules: blank lines between events, `data:` before each."""
    assert body.endswith(b"data: [DONE]\n\n")
    events = body.decode("utf-8").removesuffix("data: [DONE]\n\n").split("\n\n")
    assert events.pop() == ""
    for event in events:
        # Not only CR and LF: clients split at what Unicode calls a line's end.
        assert event.splitlines() == [event]
    return [json.loads(event.removeprefix("data: ")) for event in events]


@given(facts=FACTS, texts=TEXTS, reason=REASON, usage=USAGE, include_usage=st.booleans())
def test_a_chats_chunks_add_up_to_the_text(
    facts: Facts, texts: list[str], reason: FinishReason, usage: Usage, include_usage: bool
) -> None:
    renderer = ChatRenderer(facts, include_usage=include_usage)
    chunks = parse(stream(renderer, texts, reason, usage))
    if include_usage:
        last = chunks.pop()
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] == usage.prompt_tokens + usage.completion_tokens
    choices = [chunk["choices"][0] for chunk in chunks]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "".join(texts)
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + [reason]
    assert [choice["delta"].get("role") for choice in choices[:2]] == ["assistant", None]
    assert {chunk["model"] for chunk in chunks} == {facts.unit}


@given(facts=FACTS, texts=TEXTS, reason=REASON, usage=USAGE)
def test_a_querys_events_add_up_to_the_whole_answer(
    facts: Facts, texts: list[str], reason: FinishReason, usage: Usage
) -> None:
    renderer = QueryRenderer(facts)
    events = parse(stream(renderer, texts, reason, usage))
    whole = json.loads(renderer.whole("".join(texts), reason, usage))
    assert "".join(event["output"] for event in events) == whole["output"] == "".join(texts)
    assert {**events[-1], "output": whole["output"]} == whole


@given(facts=FACTS, texts=TEXTS, reason=REASON, usage=USAGE, cuts=st.data())
def test_how_a_text_is_cut_into_pieces_changes_nothing_for_the_client(
    facts: Facts, texts: list[str], reason: FinishReason, usage: Usage, cuts: st.DataObject
) -> None:
    text = "".join(texts)
    at = sorted(cuts.draw(st.lists(st.integers(0, len(text)))))
    bounds = [0, *at, len(text)]
    parts = [text[start:end] for start, end in itertools.pairwise(bounds)]
    renderer = ChatRenderer(facts, include_usage=False)

    def read(pieces: list[str]) -> str:
        chunks = parse(stream(renderer, pieces, reason, usage))
        return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)

    assert read(parts) == read(texts) == text


@given(text=st.text(st.characters(exclude_categories=["Cs"])), facts=FACTS)
def test_rendering_is_a_function_of_facts_and_piece_alone(text: str, facts: Facts) -> None:
    piece = Piece(3, text, (1,), Stage.DECODE, 5)
    first, second = (ChatRenderer(facts, include_usage=False) for _ in range(2))
    first.piece(Piece(0, "other", (), Stage.PREFILL, 0))
    assert first.piece(piece) == second.piece(piece) == second.piece(piece)
