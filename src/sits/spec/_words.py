"""Words that messages are made of: what was given, and which name was meant.

Invariant: what these return is short, whatever they are given, and is made in a short time.
"""

import difflib
import re
from collections.abc import Iterable
from typing import Any

from sits.spec._keys import without_keys

_SHOWN_CHARS = 80
# A comparison costs the product of both lengths; nothing that is known is as long.
_COMPARED_CHARS = 64
_SEPARATORS = re.compile(r"[-_.\s]")


def given(value: object) -> str:
    """Return what a value is, for `is …; expected …`."""
    match value:
        case None:
            return "empty"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {_shortened(str(value))}"
        case str():
            return f"the text {_shortened(without_keys(value))!r}"
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"


def nearest(name: str, names: Iterable[str], *, cutoff: float = 0.65) -> str | None:
    """Return the one of `names` that is spelled most like `name`, if one is like it.

    Case, hyphens and underscores make no difference: `minInstances` is `min_instances`.
    """
    if len(name) > _COMPARED_CHARS:
        return None
    folded = {_folded(known): known for known in names}
    near = difflib.get_close_matches(_folded(name), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else None


def listed(names: Iterable[str], last: str = "or") -> str:
    """Return names as a list in a sentence: `a, b or c`."""
    words = list(names)
    return f" {last} ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def dotted(path: Iterable[Any]) -> str:
    """Return a path the way people write it: `scale.min_instances`, `tags[0]`."""
    words = ""
    for part in path:
        if isinstance(part, int):
            words += f"[{part}]"
        else:
            name = _shortened(str(part))
            name = name if name.isprintable() else ascii(name)
            words += f".{name}" if words else name
    return words


def _folded(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."
