"""One request's life, between a gateway and a worker."""

from enum import StrEnum
from typing import Any

import msgspec

HOPS_HEADER = "x-sits-hops"
"""Says to an endpoint, which may be this platform again, how often a request was passed on."""

_TRY = "~"


def try_id(request_id: str, suffix: str) -> str:
    """Return the id of one try of a request: at a worker, no id may come twice.

    Args:
        request_id: the request's own.
        suffix: without `~`.
    """
    return f"{request_id}{_TRY}{suffix}"


def own_id(wire_id: str) -> str:
    """Return the request's own id, given that of a try."""
    return wire_id.rpartition(_TRY)[0] or wire_id


class Stage(StrEnum):
    """Whose delay a piece carries."""

    PREFILL = "prefill"
    DECODE = "decode"


class FinishReason(StrEnum):
    """Why a generation ended; the values are OpenAI's."""

    STOP = "stop"
    LENGTH = "length"


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """How probable a token of an answer was, before temperature and cuts.

    Attributes:
        token: its id.
        text: its bytes: perhaps a part of a UTF-8 character.
        logprob: natural logarithm of its probability.
        top: (bytes, logprob) of the most probable tokens at its place, best first; as many as
            were asked for.
    """

    token: int
    text: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...] = ()


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """What one engine step added to one answer.

    Attributes:
        seq: 0 for a request's first piece, then one more for each: a gap is a loss.
        text: whole UTF-8 characters; may be empty while a character or a possible stop
            string is incomplete.
        tokens: ids of the tokens that this piece accounts for, in order.
        stage: whose delay `delay_us` is.
        delay_us: microseconds since the request's previous piece, or since it was admitted.
        logprobs: one for each of `tokens`, where the request asked for them.
    """

    seq: int
    text: str
    tokens: tuple[int, ...]
    stage: Stage
    delay_us: int
    logprobs: tuple[TokenLogprob, ...] = ()


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation. `role` is system, user or assistant."""

    role: str
    content: str


class ChatPrompt(msgspec.Struct, frozen=True, tag="chat"):
    """A conversation, rendered by the model's own chat template in the worker."""

    messages: tuple[Message, ...]


class TemplatePrompt(msgspec.Struct, frozen=True, tag="template"):
    """A unit's prompt template and a caller's inputs, rendered in the worker.

    Rendering happens where only the tenant's own work can be held up by a bad template.
    """

    template: str
    inputs: dict[str, Any]
    system: str | None = None


class Sampling(msgspec.Struct, frozen=True):
    """How the next token is drawn. A temperature of 0 is greedy and ignores the cuts.

    Attributes:
        seed: of this request's draws; None: any.
        presence_penalty: taken off the logit of each token that the answer has already.
        frequency_penalty: taken off for each time that the answer has it.
        logit_bias: (token id, what is added to its logit), at most one for each token.
        top_logprobs: how many alternatives are told with each token; None: no logprobs at all.
        json_schema: a JSON Schema, as JSON text, to which the answer is held by a grammar.
    """

    temperature: float = 0.8
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    top_logprobs: int | None = None
    json_schema: str | None = None


class Generate(msgspec.Struct, frozen=True, tag="generate"):
    """Asks for an answer.

    Attributes:
        request_id: of this try of the request (`try_id`).
        stop: texts at which the answer ends; none of them is part of the answer.
        max_tokens: at most so many tokens; None: as many as the context has room for.
        hops: how often it was passed on already from an instance to an endpoint elsewhere.
        timeout_ms: the answer must be whole within so many milliseconds of its arrival here, else
            it ends with `deadline_exceeded`; None: the gateway's own limits are all.
        accepted: tokens of the answer that its client has already, from an instance that was
            lost; it goes on behind them, and counts them.
        next_seq: `seq` of its next piece; as many as were made of `accepted`.
    """

    request_id: str
    prompt: ChatPrompt | TemplatePrompt
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    hops: int = 0
    timeout_ms: int | None = None
    accepted: tuple[int, ...] = ()
    next_seq: int = 0


class Embed(msgspec.Struct, frozen=True, tag="embed"):
    """Asks for the vectors of texts, each given as text or as token ids.

    Attributes:
        dimensions: how long the vectors shall be; None: as the model makes them.
        hops: as a `Generate`'s.
    """

    request_id: str
    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    hops: int = 0


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Ends a request within one token; nothing more is sent for it."""

    request_id: str


class Usage(msgspec.Struct, frozen=True):
    """What a request took, in tokens.

    Attributes:
        cached_tokens: of the prompt's, those that were not computed for it but found.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


class Emitted(msgspec.Struct, frozen=True, tag="emitted"):
    """One piece of one request's answer."""

    request_id: str
    piece: Piece


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The answer is whole."""

    request_id: str
    reason: FinishReason
    usage: Usage


class Embedded(msgspec.Struct, frozen=True, tag="embedded"):
    """The vectors, one for each input in order: (dimensions,) float32, little-endian."""

    request_id: str
    vectors: tuple[bytes, ...]
    usage: Usage


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The request ended without a whole answer.

    Attributes:
        code: stable: `context_length_exceeded`, `invalid_prompt`, `invalid_request`,
            `wrong_endpoint`, `unsupported_dimensions`, `content_filtered`, `overloaded`,
            `draining`, `instance_lost`, `endpoint_failed` (no endpoint elsewhere could begin),
            `endpoint_lost` (one broke off in the middle), `secret_missing` (no endpoint
            elsewhere has its key), `loop_detected` (they lead back here), `deadline_exceeded`,
            `engine_error`.
        message: what was given, what was expected, what to do.
        retryable: another instance, or a later try, may do better.
    """

    request_id: str
    code: str
    message: str
    retryable: bool = False


ToWorker = Generate | Embed | Cancel
FromWorker = Emitted | Finished | Embedded | Failed
