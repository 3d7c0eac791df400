"""How probable an answer's tokens were, in the form of OpenAI's chat completions. Pure.

A token may be a part of a character: its `bytes` are exact, and its `token` has the replacement
character for what is not whole. JSON has no infinity: what is impossible is told as -9999, as
OpenAI does.
"""

import math
from collections.abc import Sequence

import msgspec

from sits.wire import TokenLogprob

_IMPOSSIBLE = -9999.0


class _Alternative(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]


class _Token(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[_Alternative]


class ChatLogprobs(msgspec.Struct, frozen=True):
    """A choice's `logprobs`."""

    content: list[_Token]
    refusal: None = None


def openai_logprobs(tokens: Sequence[TokenLogprob]) -> ChatLogprobs:
    """Return what a worker told of tokens, under OpenAI's names."""
    return ChatLogprobs([_token(each) for each in tokens])


def _token(told: TokenLogprob) -> _Token:
    top = [_Alternative(_text(raw), _finite(logprob), list(raw)) for raw, logprob in told.top]
    return _Token(_text(told.text), _finite(told.logprob), list(told.text), top)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else _IMPOSSIBLE
