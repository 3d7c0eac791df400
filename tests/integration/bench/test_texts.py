"""The words of the benchmarks' prompts, by the tokenizer of their model."""

import random

from sits.bench._texts import WORDS, draw_words
from sits.models import builtin_path
from sits.runtime.engine import LLAMACPP, load_model


def test_a_text_has_as_many_tokens_as_words() -> None:
    model = load_model(LLAMACPP, str(builtin_path("smollm2-135m-instruct")))
    try:
        for word in WORDS:
            assert len(model.tokenize(word, parse_special=False)) == 1, word
            assert len(model.tokenize(f" {word}", parse_special=False)) == 1, word
        text = draw_words(random.Random(3), 2000)
        assert len(model.tokenize(text, parse_special=False)) == 2000
    finally:
        model.close()
    assert len(set(WORDS)) == len(WORDS)
