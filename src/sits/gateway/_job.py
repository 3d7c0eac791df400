"""What every endpoint turns its request into, and what the relay then carries out."""

from dataclasses import dataclass
from typing import Protocol

from sits.wire import (
    ChatPrompt,
    FinishReason,
    Generate,
    Piece,
    Sampling,
    TemplatePrompt,
    Tier,
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

    def whole(self, text: str, reason: FinishReason, usage: Usage) -> bytes:
        """Return the one document of an answer that is not streamed."""
        ...


class MakeRenderer(Protocol):
    """Makes a request's renderer once its facts are known."""

    def __call__(self, facts: Facts) -> Renderer:
        """Return the renderer."""
        ...


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

    def generate(self, request_id: str) -> Generate:
        """Return the message that asks a worker for the answer."""
        return Generate(request_id, self.prompt, self.sampling, self.stop, self.max_tokens)
