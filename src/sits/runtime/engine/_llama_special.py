"""The texts of special tokens, and where they let a text be cut without changing its tokens.

A BPE tokenizer first finds the texts of special tokens, the longest first, and then makes tokens
of what lies between them, each part for itself. So behind such a text nothing depends on what
was before it; unless the token takes spaces beside it away, or another special token's text may
overlap it. Source: `tokenizer_st_partition` of llama.cpp's `llama-vocab.cpp`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sits.runtime.engine._llama_native import native

_CONTROL = native.LLAMA_TOKEN_ATTR_CONTROL
_SPECIAL = _CONTROL | native.LLAMA_TOKEN_ATTR_USER_DEFINED | native.LLAMA_TOKEN_ATTR_UNKNOWN
_STRIPS = native.LLAMA_TOKEN_ATTR_LSTRIP | native.LLAMA_TOKEN_ATTR_RSTRIP


@dataclass(frozen=True)
class SpecialTexts:
    """What a vocabulary has.

    Attributes:
        control: texts of the control tokens.
        cuts: those of them behind which a text may be cut.
    """

    control: tuple[str, ...]
    cuts: tuple[str, ...]


def read_special_texts(vocab: Any) -> SpecialTexts:
    """Read llama.cpp's vocabulary."""
    read = native.llama_vocab_get_attr
    found: list[tuple[str, int]] = []
    for token in range(native.llama_vocab_n_tokens(vocab)):
        attribute = read(vocab, token)
        if attribute & _SPECIAL:
            text = (native.llama_vocab_get_text(vocab, token) or b"").decode("utf-8", "replace")
            found.append((text, attribute))
    control = tuple(text for text, attribute in found if text and attribute & _CONTROL)
    if native.llama_vocab_type(vocab) != native.LLAMA_VOCAB_TYPE_BPE:
        return SpecialTexts(control, ())
    strips = {text for text, attribute in found if attribute & _STRIPS}
    apart = find_apart([text for text, _ in found if text])
    return SpecialTexts(
        control, tuple(text for text in control if text in apart and text not in strips)
    )


def find_apart(texts: Sequence[str]) -> set[str]:
    """Return those of which no other, nor another of itself, can take in a part.

    That is, none is within another, or ends as another begins.
    """
    heads = {text[:size] for text in texts for size in range(1, len(text))}
    tails = {text[size:] for text in texts for size in range(1, len(text))}
    together = "\0".join(texts)
    return {
        text
        for text in set(texts)
        if together.count(text) == texts.count(text)
        and heads.isdisjoint(text[size:] for size in range(1, len(text)))
        and tails.isdisjoint(text[:size] for size in range(1, len(text)))
    }
