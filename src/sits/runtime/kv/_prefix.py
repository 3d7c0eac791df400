"""How much token sequences begin alike. Pure.

Tokens are packed, int32 each: bytes compare fast.
"""

from array import array
from collections.abc import Iterable
from typing import TypeVar

ID_BYTES = array("i").itemsize

T = TypeVar("T")


def longest(holders: Iterable[tuple[T, bytes]], wanted: bytes) -> tuple[T | None, int]:
    """Return who begins most like `wanted`, and for how many tokens."""
    best: T | None = None
    most = 0
    for holder, tokens in holders:
        shared = shared_tokens(tokens, wanted)
        if shared > most:
            best, most = holder, shared
    return best, most


def shared_tokens(one: bytes, two: bytes) -> int:
    """Return how many packed tokens two begin with alike. By halves: bytes compare fast."""
    if one[:ID_BYTES] != two[:ID_BYTES]:
        return 0
    low, high = 0, min(len(one), len(two)) // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if one[low * ID_BYTES : middle * ID_BYTES] == two[low * ID_BYTES : middle * ID_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low


def most_shared(tokens: bytes) -> int:
    """Return how many packed tokens a request may have from others: not the last."""
    return len(tokens) // ID_BYTES - 1
