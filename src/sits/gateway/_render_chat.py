"""Answers in the form of OpenAI's chat completions. Pure.

A chunk is put together from parts that are encoded once for each request: what differs from
piece to piece is the text alone, and this runs for every piece of every answer.
"""

import msgspec

from sits.gateway._event_text import encode_text
from sits.gateway._job import Facts
from sits.wire import FinishReason, Piece, Usage

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


class ChatUsage(msgspec.Struct, frozen=True):
    """What an answer took, under OpenAI's names."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class _Answer(msgspec.Struct, frozen=True):
    content: str
    role: str = "assistant"
    refusal: None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Answer
    finish_reason: str
    index: int = 0
    logprobs: None = None


class _Completion(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    system_fingerprint: str
    choices: tuple[_Choice]
    usage: ChatUsage
    object: str = "chat.completion"


def openai_usage(usage: Usage) -> ChatUsage:
    """Return a worker's usage under OpenAI's names."""
    total_tokens = usage.prompt_tokens + usage.completion_tokens
    return ChatUsage(usage.prompt_tokens, usage.completion_tokens, total_tokens)


class ChatRenderer:
    """One chat completion's events and documents.

    Args:
        facts: the request's.
        include_usage: end the stream with a chunk that has the usage and no choice.
    """

    def __init__(self, facts: Facts, *, include_usage: bool) -> None:
        self._id = f"chatcmpl-{facts.request_id}"
        self._facts = facts
        self._include_usage = include_usage
        self._head = (
            b'data: {"id":'
            + encode_text(self._id)
            + b',"object":"chat.completion.chunk","created":'
            b"%d"
            % facts.created_s
            + b',"model":'
            + encode_text(facts.unit)
            + b',"system_fingerprint":'
            + encode_text(self._fingerprint)
        )
        self._first = self._head + b',"choices":[{"index":0,"delta":{"role":"assistant","content":'
        self._next = self._head + b',"choices":[{"index":0,"delta":{"content":'
        self._no_usage = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._tail = b'},"logprobs":null,"finish_reason":null}]' + self._no_usage

    @property
    def _fingerprint(self) -> str:
        return f"fp_{self._facts.revision}"

    def piece(self, piece: Piece) -> bytes:
        """Return the piece's chunk; the first tells the role, and later empty ones are none."""
        if piece.seq == 0:
            return self._first + encode_text(piece.text) + self._tail
        if not piece.text:
            return b""
        return self._next + encode_text(piece.text) + self._tail

    def opening(self) -> bytes:
        """Return the first chunk of an answer without pieces."""
        return self._first + b'""' + self._tail

    def closing(self, reason: FinishReason, usage: Usage) -> bytes:
        """Return the chunk with the reason, the one with the usage if asked for, and the end."""
        last = (
            self._head
            + b',"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":'
            + _encode(reason)
            + b"}]"
            + self._no_usage
        )
        if not self._include_usage:
            return last + DONE
        figures = _encode(openai_usage(usage))
        return last + self._head + b',"choices":[],"usage":' + figures + b"}\n\n" + DONE

    def whole(self, text: str, reason: FinishReason, usage: Usage) -> bytes:
        """Return the answer as one document."""
        return _encode(
            _Completion(
                id=self._id,
                created=self._facts.created_s,
                model=self._facts.unit,
                system_fingerprint=self._fingerprint,
                choices=(_Choice(_Answer(text), reason),),
                usage=openai_usage(usage),
            )
        )
