"""Answers in the form of OpenAI's chat completions. Pure.

A chunk is put together from parts that are encoded once for each request: what differs from
piece to piece is the text alone, and this runs for every piece of every answer.
"""

from collections.abc import Sequence

import msgspec

from sits.gateway._event_text import encode_text, encode_value
from sits.gateway._job import Facts
from sits.gateway._render_logprobs import ChatLogprobs, openai_logprobs
from sits.wire import FinishReason, Piece, TokenLogprob, Usage

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


class PromptDetails(msgspec.Struct, frozen=True):
    """Of a prompt's tokens, those that were not computed for it but found."""

    cached_tokens: int


class ChatUsage(msgspec.Struct, frozen=True):
    """What an answer took, under OpenAI's names."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class _Answer(msgspec.Struct, frozen=True):
    content: str
    role: str = "assistant"
    refusal: None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Answer
    finish_reason: str
    logprobs: ChatLogprobs | None = None
    index: int = 0


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
    return ChatUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=PromptDetails(usage.cached_tokens),
    )


class ChatRenderer:
    """One chat completion's events and documents.

    Args:
        facts: the request's.
        include_usage: end the stream with a chunk that has the usage and no choice.
        logprobs: tell how probable each token was.
    """

    def __init__(self, facts: Facts, *, include_usage: bool, logprobs: bool = False) -> None:
        self._id = f"chatcmpl-{facts.request_id}"
        self._facts = facts
        self._include_usage = include_usage
        self._logprobs = logprobs
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
        self._end = b',"finish_reason":null}]' + self._no_usage
        self._tail = b'},"logprobs":null' + self._end

    @property
    def _fingerprint(self) -> str:
        return f"fp_{self._facts.revision}"

    def piece(self, piece: Piece) -> bytes:
        """Return the piece's chunk; the first tells the role, and later empty ones are none."""
        tail = self._tail
        if self._logprobs and piece.logprobs:
            tail = b'},"logprobs":' + encode_value(openai_logprobs(piece.logprobs)) + self._end
        elif piece.seq and not piece.text:
            return b""
        head = self._next if piece.seq else self._first
        return head + encode_text(piece.text) + tail

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

    def whole(
        self,
        text: str,
        reason: FinishReason,
        usage: Usage,
        logprobs: Sequence[TokenLogprob] = (),
    ) -> bytes:
        """Return the answer as one document."""
        told = openai_logprobs(logprobs) if self._logprobs else None
        return _encode(
            _Completion(
                id=self._id,
                created=self._facts.created_s,
                model=self._facts.unit,
                system_fingerprint=self._fingerprint,
                choices=(_Choice(_Answer(text), reason, told),),
                usage=openai_usage(usage),
            )
        )
