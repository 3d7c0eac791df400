"""No text but the key itself proves the key."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from sits import trust

KEY = trust.make_key()


@dataclass(frozen=True)
class Record:
    secret_hash: str


RECORDS = {KEY.key_id: Record(KEY.secret_hash)}


@given(st.text() | st.text().map(lambda tail: f"sk-sits-{KEY.key_id}-{tail}"))
def test_any_other_text_is_refused(text: str) -> None:
    assert (trust.verify(text, RECORDS) is not None) == (text == KEY.text)


@given(st.data())
def test_one_changed_character_is_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(KEY.text) - 1))
    other = data.draw(st.characters().filter(lambda char: char != KEY.text[at]))
    assert trust.verify(KEY.text[:at] + other + KEY.text[at + 1 :], RECORDS) is None
