"""Where a text may be cut, held against the whole text's tokens by the real tokenizer."""

import pytest

from sits.runtime.engine import LLAMACPP, load_model
from sits.runtime.engine._llama_special import find_apart
from tests.models import smollm2_path


@pytest.mark.parametrize(
    ("texts", "apart"),
    [
        (["<|a|>", "<|b|>"], {"<|a|>", "<|b|>"}),
        (["<|a|>", "<|a|>b"], {"<|a|>b"}),  # the longer one is taken where both may be
        (["<a>", "a"], {"<a>"}),  # the shorter one lies within
        (["ab", "bc"], set()),  # of "abc" either may be taken
        (["aba"], set()),  # of "ababa" one, and not the other
        (["<s>", "</s>", "<|end|>"], {"<s>", "</s>", "<|end|>"}),
    ],
)
def test_texts_that_may_overlap_let_nothing_be_cut(texts: list[str], apart: set[str]) -> None:
    assert find_apart(texts) == apart


def test_a_text_may_be_cut_where_the_model_says_so() -> None:
    model = load_model(LLAMACPP, smollm2_path())
    cuts = model.info.cut_texts
    assert {"<|im_start|>", "<|im_end|>", "<|endoftext|>"} <= set(cuts)
    for cut in cuts:
        for before, after in (
            ("Say  ", "  it"),
            ("x<|im_start|>", "\n\nuser"),
            ("", "é 1"),
            ("<", ">"),
        ):
            one, two = before + cut, after
            parts = model.tokenize(one, parse_special=True) + model.tokenize(
                two, parse_special=True
            )
            assert parts == model.tokenize(one + two, parse_special=True)
    model.close()
