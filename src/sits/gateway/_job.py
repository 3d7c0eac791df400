"""What every endpoint turns its request into, and what the relay then carries out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sits.gateway._errors import ApiError
from sits.wire import (
    ChatPrompt,
    Embed,
    FinishReason,
    Generate,
    Piece,
    Sampling,
    TemplatePrompt,
    Tier,
    TokenLogprob,
    UnitKind,
    UnitRoute,
    Usage,
)


@dataclass(frozen=True)
class Facts:
    """What is known of a request when its answer begins.

    Attributes:
        request_id: its one id.
        created_s: Unix seconds.
        unit: the unit's name.
        revision: the unit's revision.
        tier: how warm the instance was for it.
    """

    request_id: str
    created_s: int
    unit: str
    revision: str
    tier: Tier


class Renderer(Protocol):
    """Turns one answer into bytes, in one API's form. Pure: facts and a piece in, bytes out."""

    def piece(self, piece: Piece) -> bytes:
        """Return the piece's event; empty when it has nothing for the client."""
        ...

    def opening(self) -> bytes:
        """Return what an answer without any piece begins with."""
        ...

    def closing(self, reason: FinishReason, usage: Usage) -> bytes:
        """Return the events that end a whole answer."""
        ...

    def whole(
        self,
        text: str,
        reason: FinishReason,
        usage: Usage,
        logprobs: Sequence[TokenLogprob] = (),
    ) -> bytes:
        """Return the one document of an answer that is not streamed."""
        ...


class MakeRenderer(Protocol):
    """Makes a request's renderer once its facts are known."""

    def __call__(self, facts: Facts) -> Renderer:
        """Return the renderer."""
        ...


@dataclass(frozen=True)
class Going:
    """How far a request is when an instance is given it.

    Attributes:
        timeout_ms: what is left of its time; None: it has no limit of its own.
        accepted: tokens of its answer from instances that were lost.
        next_seq: how many pieces came from those.
    """

    timeout_ms: int | None = None
    accepted: tuple[int, ...] = ()
    next_seq: int = 0


_FROM_THE_BEGINNING = Going()


@dataclass(frozen=True)
class Job:
    """A request that has been read and found good.

    Attributes:
        unit: the route as it was when the request came; a request keeps its revision.
        prompt: what the worker renders.
        sampling: how tokens are drawn.
        stop: texts at which the answer ends.
        max_tokens: at most so many; None: as many as there is room for.
        stream: send each piece as it is made.
        make_renderer: the form of the answer.
    """

    unit: UnitRoute
    prompt: ChatPrompt | TemplatePrompt
    sampling: Sampling
    stop: tuple[str, ...]
    max_tokens: int | None
    stream: bool
    make_renderer: MakeRenderer

    def order(self, request_id: str, hops: int = 0, going: Going = _FROM_THE_BEGINNING) -> Generate:
        """Return the message that asks a worker for the answer, or for the rest of it."""
        return Generate(
            request_id=request_id,
            prompt=self.prompt,
            sampling=self.sampling,
            stop=self.stop,
            max_tokens=self.max_tokens,
            hops=hops,
            timeout_ms=going.timeout_ms,
            accepted=going.accepted,
            next_seq=going.next_seq,
        )


@dataclass(frozen=True)
class EmbeddingJob:
    """A request for vectors that has been read and found good.

    Attributes:
        unit: as a `Job`'s.
        inputs: texts, or token ids.
        dimensions: how long the vectors shall be; None: as the model makes them.
        as_base64: send each vector as base64 of its bytes, and not as numbers.
    """

    unit: UnitRoute
    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None
    as_base64: bool

    def order(self, request_id: str, hops: int = 0, going: Going = _FROM_THE_BEGINNING) -> Embed:
        """Return the message that asks a worker for the vectors: always for all of them."""
        return Embed(request_id, self.inputs, self.dimensions, hops)


AnyJob = Job | EmbeddingJob

_CALLS = {
    UnitKind.CHAT: ("generates text", "/v1/chat/completions"),
    UnitKind.EMBEDDING: ("makes embeddings", "/v1/embeddings"),
}


def require_kind(unit: UnitRoute, kind: UnitKind) -> None:
    """Check that a unit answers what it is asked.

    Raises:
        ApiError: it is of the other kind; the message says what to call.
    """
    if unit.kind is not kind:
        does, path = _CALLS[unit.kind]
        raise ApiError(
            400,
            "wrong_endpoint",
            f"the unit {unit.name!r} {does}; call {path}",
            param="model",
        )
