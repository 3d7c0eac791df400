"""The tokens of long texts that came before, such as a system prompt of a thousand words.

Invariants: the tokens are those of the whole text, since it is cut only where that changes
nothing; what is remembered is of one tenant, bounded, and the least recently used goes.
"""

import re
from array import array
from collections import OrderedDict
from collections.abc import Iterator

from sits.runtime.engine import Model

# Shorter parts are tokenized as fast as they are looked up; longer ones are seldom constant.
_LEAST_CHARS, _MOST_CHARS = 256, 1 << 17
_MOST_PARTS = 32


class Tokenized:
    """A model's tokenizer that remembers.

    Args:
        model: whose.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        # The longest first: one may begin like another.
        cuts = sorted(model.info.cut_texts, key=len, reverse=True)
        self._cut = re.compile("|".join(map(re.escape, cuts))) if cuts else None
        self._known: OrderedDict[str, array[int]] = OrderedDict()

    def tokens(self, text: str) -> Iterator[int]:
        """Yield the tokens of a text in which control tokens' texts are these tokens."""
        for part in self._parts(text):
            yield from self._part(part)

    def _parts(self, text: str) -> Iterator[str]:
        """Cut a text, behind the texts that allow it."""
        start = 0
        if self._cut is not None and len(text) >= _LEAST_CHARS:
            for found in self._cut.finditer(text):
                yield text[start : found.end()]
                start = found.end()
        yield text[start:]

    def _part(self, text: str) -> "array[int] | list[int]":
        if not _LEAST_CHARS <= len(text) <= _MOST_CHARS:
            return self._model.tokenize(text, parse_special=True) if text else []
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = array("i", self._model.tokenize(text, parse_special=True))
            if len(self._known) > _MOST_PARTS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(text)
        return known
