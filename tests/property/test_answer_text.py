"""What is shown never depends on how the bytes were cut."""

from hypothesis import given
from hypothesis import strategies as st

from sits.runtime.batch import AnswerText

TEXTS = st.text(st.sampled_from("abcé€😀 \n"), max_size=24)
STOPS = st.lists(st.text(st.sampled_from("abcé€😀"), min_size=1, max_size=4), max_size=3)


def expected(text: str, stops: list[str]) -> tuple[str, bool]:
    """Cut `text` by brute force: at the shortest prefix that ends with a stop string."""
    for size in range(1, len(text) + 1):
        ends = [stop for stop in stops if text[:size].endswith(stop)]
        if ends:
            return text[: size - max(len(stop) for stop in ends)], True
    return text, False


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    parts = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return [*parts, data]


@given(TEXTS, STOPS, st.lists(st.integers(0, 5), max_size=40))
def test_any_cutting_shows_the_same_text(text: str, stops: list[str], sizes: list[int]) -> None:
    answer = AnswerText(stops)
    shown = "".join(answer.feed(part) for part in cut(text.encode(), sizes)) + answer.finish()
    assert (shown, answer.stopped) == expected(text, stops)


@given(TEXTS, st.lists(st.integers(1, 2), max_size=60))
def test_shows_only_whole_characters(text: str, sizes: list[int]) -> None:
    answer = AnswerText()
    shown = ""
    for part in cut(text.encode(), sizes):
        shown += answer.feed(part)
        assert "\ufffd" not in shown
        assert text.startswith(shown)


@given(st.binary(max_size=30), st.lists(st.integers(0, 4), max_size=30))
def test_broken_bytes_become_replacement_characters(data: bytes, sizes: list[int]) -> None:
    answer = AnswerText()
    shown = "".join(answer.feed(part) for part in cut(data, sizes)) + answer.finish()
    assert shown == data.decode("utf-8", "replace")


@given(TEXTS, STOPS)
def test_never_takes_back_what_it_showed(text: str, stops: list[str]) -> None:
    answer = AnswerText(stops)
    final, _stopped = expected(text, stops)
    shown = ""
    for byte in text.encode():
        shown += answer.feed(bytes([byte]))
        assert final.startswith(shown)
