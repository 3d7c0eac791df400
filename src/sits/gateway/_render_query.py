"""Answers of a unit's own endpoint. Pure.

A stream's events have the form of the whole answer, each with its part of the output; the
last has the reason, the usage and no output.
"""

from collections.abc import Sequence

import msgspec

from sits.gateway._event_text import encode_text
from sits.gateway._job import Facts
from sits.gateway._render_chat import DONE, ChatUsage, openai_usage
from sits.wire import FinishReason, Piece, TokenLogprob, Usage

_encode = msgspec.json.Encoder().encode


class _Answer(msgspec.Struct, frozen=True):
    id: str
    unit: str
    revision: str
    tier: str
    output: str
    finish_reason: str | None
    usage: ChatUsage | None


class QueryRenderer:
    """One answer's events and documents.

    Args:
        facts: the request's.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._head = (
            b'data: {"id":'
            + encode_text(facts.request_id)
            + b',"unit":'
            + encode_text(facts.unit)
            + b',"revision":'
            + encode_text(facts.revision)
            + b',"tier":'
            + encode_text(facts.tier)
            + b',"output":'
        )

    def piece(self, piece: Piece) -> bytes:
        """Return the piece's event; an empty one has none."""
        if not piece.text:
            return b""
        return self._head + encode_text(piece.text) + b',"finish_reason":null,"usage":null}\n\n'

    def opening(self) -> bytes:
        """Return nothing: this form has no opening."""
        return b""

    def closing(self, reason: FinishReason, usage: Usage) -> bytes:
        """Return the event with the reason and the usage, and the end."""
        end = b',"finish_reason":' + _encode(reason) + b',"usage":' + _encode(openai_usage(usage))
        return self._head + b'""' + end + b"}\n\n" + DONE

    def whole(
        self,
        text: str,
        reason: FinishReason,
        usage: Usage,
        logprobs: Sequence[TokenLogprob] = (),
    ) -> bytes:
        """Return the answer as one document. This form has no place for `logprobs`."""
        facts = self._facts
        return _encode(
            _Answer(
                id=facts.request_id,
                unit=facts.unit,
                revision=facts.revision,
                tier=facts.tier,
                output=text,
                finish_reason=reason,
                usage=openai_usage(usage),
            )
        )
