"""What is text: the same in YAML and JSON, written as it is or escaped."""

import re
from collections.abc import Iterator
from typing import Any

# YAML takes nothing else for text; a lone half of a surrogate pair is none either.
_NO_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def find_no_text(text: str) -> re.Match[str] | None:
    """Return the first character of a text that is none."""
    return _NO_TEXT.search(text)


def odd_character(text: str) -> str:
    """Return what is wrong with a text's first character that is none; "" where all are."""
    found = find_no_text(text)
    if found is None:
        return ""
    if "\ud800" <= found.group() <= "\udfff":
        return "has half of a surrogate pair, which is no character; write the character itself"
    return f"has the character U+{ord(found.group()):04X}, which is no text; remove it"


def walk_values(value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Give all values in a value with their paths, itself first; as deep as it may be."""
    left: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while left:
        path, value = left.pop()
        yield path, value
        if isinstance(value, dict):
            left.extend(((*path, key), part) for key, part in value.items())
        elif isinstance(value, list):
            left.extend(((*path, index), part) for index, part in enumerate(value))
