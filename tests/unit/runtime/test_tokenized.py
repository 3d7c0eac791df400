"""What is remembered of texts is what the tokenizer makes of them, and it is bounded."""

import pytest

from sits.runtime.batch._tokenized import Tokenized
from sits.testing import FakeModel

LONG = "a long constant beginning, word by word. " * 10


class CountingModel(FakeModel):
    """Notes every text that it tokenizes."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def tokenize(self, text: str, *, parse_special: bool, add_special: bool = False) -> list[int]:
        self.asked.append(text)
        return super().tokenize(text, parse_special=parse_special, add_special=add_special)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        LONG,
        f"<|system|>{LONG}<|end|><|user|>hi<|end|><|assistant|>",
        f"{LONG}<|end|>{LONG}<|end|>{LONG}",
        "<|end|>" * 100,
        f"<|en<|end|>d|>{LONG}",
    ],
)
def test_tokens_are_those_of_the_whole_text_the_first_time_and_later(text: str) -> None:
    expected = FakeModel().tokenize(text, parse_special=True)
    tokenized = Tokenized(FakeModel())
    assert [list(tokenized.tokens(text)) for _ in range(3)] == [expected] * 3


def test_a_long_part_is_tokenized_once() -> None:
    model = CountingModel()
    tokenized = Tokenized(model)
    for question in ("one", "two"):
        list(tokenized.tokens(f"<|system|>{LONG}<|end|><|user|>{question}<|end|>"))
    parts = ["<|system|>", f"{LONG}<|end|>", "<|user|>", "one<|end|>", "<|user|>", "two<|end|>"]
    assert [text for text in model.asked if text != "<|system|>"] == parts[1:]


def test_what_was_used_long_ago_is_forgotten() -> None:
    model = CountingModel()
    tokenized = Tokenized(model)
    for number in range(40):
        list(tokenized.tokens(f"{number}{LONG}"))
    model.asked.clear()
    list(tokenized.tokens(f"39{LONG}"))
    assert not model.asked
    list(tokenized.tokens(f"0{LONG}"))
    assert model.asked == [f"0{LONG}"]
