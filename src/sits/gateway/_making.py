"""One answer in the making: on one instance, or on several one after another.

Invariants:

- A lost instance costs only time. What the client has stays as it is: the next instance is given
  the tokens that were accepted and goes on behind them, so that nothing is repeated, missing or
  mixed. Where tokens are not known (an endpoint elsewhere sends text) or are of another revision's
  model, an answer that nobody has seen begins anew, and a stream ends with the loss.
- At most `_MAX_ATTEMPTS` tries without progress, within one hold deadline; a piece that the next
  instance can go on behind is progress. A request that kills what it runs on is not handed round
  for ever, piece by piece, either: at most `_MAX_LOSSES` instances are lost under it.
- However it ends, the place is given back and the worker is told to stop (`release`).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import anyio

from sits.gateway._activator import Activator, Lease
from sits.gateway._deadline import Deadline
from sits.gateway._errors import RETRY_ELSEWHERE, ApiError, from_failure
from sits.gateway._exchange import Exchange
from sits.gateway._job import AnyJob, EmbeddingJob, Going
from sits.gateway._settings import Settings
from sits.wire import Embedded, Emitted, Failed, Finished, Piece

_MAX_ATTEMPTS = 3
_MAX_LOSSES = 16

Message = Emitted | Finished | Embedded


class Sink(Protocol):
    """Where an answer's pieces go."""

    async def take(self, piece: Piece) -> None:
        """Take the next piece."""
        ...

    def forget(self) -> bool:
        """Drop all that was taken, since it is made anew; False: a client has seen it."""
        ...


@dataclass(frozen=True)
class Means:
    """What answers are made with.

    Attributes:
        activator: gives places on instances.
        settings: the time limits.
        make_id: returns an id for the instance that was never used, from the request's own.
    """

    activator: Activator
    settings: Settings
    make_id: Callable[[str], str]


class Making:
    """One request's answer.

    Args:
        means: what it is made with.
        job: what is asked for.
        exchange: the request's record; told of its first piece, tokens, tier and usage.
        deadline: until when it is wanted, by `time.monotonic`.
    """

    def __init__(self, means: Means, job: AnyJob, exchange: Exchange, deadline: Deadline) -> None:
        self._means = means
        self._job = job
        self._exchange = exchange
        self._deadline = deadline
        self._key = (job.unit.tenant, job.unit.name)
        self._lease: Lease | None = None
        self._revision: str | None = None
        now = anyio.current_time()
        self._arrived = means.activator.links_seen
        self._over = now + deadline.left_s(time.monotonic())
        self._hold_until: float | None = now + job.unit.hold_s
        self._last = math.inf
        self._awaited = ("the answer's beginning", 0.0)
        self._left = _MAX_ATTEMPTS
        self._losses = 0
        self._accepted: list[int] = []
        self._pieces = 0
        self._untold = False

    async def begin(self) -> Message:
        """Return the answer's first message, from as many instances as it takes.

        Raises:
            ApiError: no instance could begin it in time, or it was refused.
        """
        with anyio.CancelScope() as limit:
            message = await self._next(limit, None)
            self._exchange.first_piece_s = time.monotonic()
            self._last = anyio.current_time() + self._means.settings.total_s
            return message
        raise self._late()

    async def follow(self, first: Message, sink: Sink) -> Finished:
        """Hand each piece to `sink`, in order, beginning with `first`; return the answer's end.

        Raises:
            ApiError: the answer failed, lost a piece, or took too long. The place is given back.
        """
        try:
            message = await self._follow(first, sink)
        except ApiError:
            self.release()
            raise
        if not isinstance(message, Finished):
            raise ApiError(
                500,
                "engine_error",
                "the instance sent vectors where text was due; send the request again",
            )
        self._exchange.usage = message.usage
        self._exchange.tokens = message.usage.completion_tokens
        return message

    def release(self) -> None:
        """Give the place back; the instance stops if the answer had not ended. Idempotent."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    async def _follow(self, first: Message, sink: Sink) -> Message:
        message = first
        # One scope whose deadline moves: a new one for each piece would cost more than the rest.
        with anyio.CancelScope() as limit:
            self._allow(limit, "the next piece", self._means.settings.idle_s)
            while isinstance(message, Emitted):
                await sink.take(message.piece)
                message = await self._next(limit, sink)
            return message
        raise self._late()

    async def _next(self, limit: anyio.CancelScope, sink: Sink | None) -> Message:
        """Return the next message, from another instance if this one is lost."""
        while True:
            if self._lease is None:
                await self._place(limit, sink)
            assert self._lease is not None
            message = await self._lease.receive()
            if isinstance(message, Failed):
                self._lose(from_failure(message), sink)
                continue
            if isinstance(message, Emitted):
                self._note(message.piece)
                self._allow(limit, "the next piece", self._means.settings.idle_s)
            return message

    async def _place(self, limit: anyio.CancelScope, sink: Sink | None) -> None:
        """Take a place and hand the request to its instance."""
        # The queue has its own limit, `hold_s`.
        limit.deadline = self._over
        if self._hold_until is None:
            self._hold_until = anyio.current_time() + self._job.unit.hold_s
        self._left -= 1
        activator, wire_id = self._means.activator, self._means.make_id(self._exchange.request_id)
        self._lease = await activator.acquire(
            self._key,
            wire_id,
            arrived=self._arrived,
            deadline=self._hold_until,
            again=self._losses > 0,
        )
        if not self._exchange.first_piece_s:
            self._exchange.tier = self._lease.tier
        revision = activator.revision(self._key)
        if self._pieces and revision != self._revision:
            self._begin_anew(sink, _other_revision())
        self._revision = revision
        timeout_ms = self._deadline.left_ms(time.monotonic())
        going = Going(timeout_ms, tuple(self._accepted), self._pieces)
        self._lease.start_nowait(self._job.order(wire_id, self._exchange.hops, going))
        settings = self._means.settings
        is_vectors = isinstance(self._job, EmbeddingJob)
        what = "the next piece" if self._pieces else "the answer's beginning"
        self._allow(limit, what, settings.total_s if is_vectors else settings.first_byte_s)

    def _lose(self, error: ApiError, sink: Sink | None) -> None:
        """Let go of an instance that failed; raise what it said, unless another may do better."""
        self.release()
        self._losses += 1
        if error.error_code not in RETRY_ELSEWHERE or not self._left:
            raise error
        if self._losses > _MAX_LOSSES:
            raise error
        if error.error_code == "endpoint_lost" and self._accepted:
            # An endpoint elsewhere cannot go on behind tokens of a model here.
            raise error
        if self._untold:
            self._begin_anew(sink, error)

    def _begin_anew(self, sink: Sink | None, error: ApiError) -> None:
        if self._pieces and (sink is None or not sink.forget()):
            raise error
        self._accepted.clear()
        self._pieces, self._untold = 0, False
        self._exchange.tokens = 0

    def _note(self, piece: Piece) -> None:
        if piece.seq != self._pieces:
            raise _lost_piece(self._pieces, piece.seq)
        self._pieces += 1
        self._accepted += piece.tokens
        self._exchange.tokens = len(self._accepted)
        if piece.text and not self._accepted:
            self._untold = True
        if self._accepted and (piece.text or piece.tokens):
            self._left, self._hold_until = _MAX_ATTEMPTS, None

    def _allow(self, limit: anyio.CancelScope, what: str, within_s: float) -> None:
        self._awaited = (what, within_s)
        limit.deadline = min(anyio.current_time() + within_s, self._last, self._over)

    def _late(self) -> ApiError:
        now = anyio.current_time()
        if now >= self._over:
            return self._deadline.error()
        if now >= self._last:
            return _timeout("the whole answer", self._means.settings.total_s)
        return _timeout(*self._awaited)


def _timeout(what: str, limit_s: float) -> ApiError:
    return ApiError(504, "timeout", f"{what} was not there after {limit_s:g} s; try again")


def _lost_piece(expected: int, given: int) -> ApiError:
    return ApiError(
        500,
        "engine_error",
        f"the instance sent piece {given} where piece {expected} was due; the answer is not whole: "
        "send the request again",
    )


def _other_revision() -> ApiError:
    return ApiError(
        503,
        "instance_lost",
        "the instance ended before the answer did, and only another revision of the unit is "
        "there now; send the request again",
    )
