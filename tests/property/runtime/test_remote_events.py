"""What an endpoint says never depends on how its bytes were cut."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from sits.runtime.remote._chat import ChatAnswer
from sits.runtime.remote._errors import EndpointError
from sits.runtime.remote._sse import EventReader
from tests.property.test_answer_text import cut

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")))
SIZES = st.lists(st.integers(0, 5), max_size=60)


@given(TEXTS, ENDS, SIZES)
def test_any_cutting_gives_the_same_events(texts: list[str], end: str, sizes: list[int]) -> None:
    stream = "".join(f": note{end}data: {text}{end}{end}" for text in texts).encode()
    reader = EventReader()
    assert [event for piece in cut(stream, sizes) for event in reader.feed(piece)] == texts


@given(st.text(st.characters(), max_size=20), st.lists(st.integers(1, 3), max_size=20))
def test_any_cutting_of_escapes_gives_the_same_text(text: str, sizes: list[int]) -> None:
    """As endpoints in languages with UTF-16 strings cut theirs."""
    units = text.encode("utf-16-le", "surrogatepass")
    pieces, at = [], 0
    for size in [*sizes, len(units)]:
        pieces.append(units[at : at + 2 * size].decode("utf-16-le", "surrogatepass"))
        at += 2 * size
    answer = ChatAnswer(())
    events = [json.dumps({"choices": [{"delta": {"content": piece}}]}) for piece in pieces]
    shown = "".join(map(answer.take, [*events, "[DONE]"]))
    assert shown == units.decode("utf-16-le", "replace")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(stream: bytes) -> None:
    answer = ChatAnswer(())
    with contextlib.suppress(EndpointError):
        for data in EventReader().feed(stream):
            answer.take(data).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
NAMES = ("choices", "delta", "content", "finish_reason", "usage", "error", "message", "type")
EVENTS = st.recursive(
    JSON,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(EVENTS)
def test_any_event_is_read_or_refused(event: object) -> None:
    with contextlib.suppress(EndpointError):
        ChatAnswer(()).take(json.dumps(event)).encode()
