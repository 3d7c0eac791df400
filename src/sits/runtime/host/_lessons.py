"""What a template is taught: the constant beginnings of prompts, computed by a child of it.

The template computes nothing itself, so that forks never wait for it. A beginning that is kept in
a file is there at once. Any other is computed by one child at a time, with a seat on the board, so
that workers leave it a core; it begins when no worker has anything to do, or after `_PATIENCE_S`.
"""

import logging
import os
import time
from collections.abc import Callable
from typing import BinaryIO

from sits._errors import SitsError
from sits._process import set_process_name
from sits.runtime.host._board import Board, Seat
from sits.runtime.host._child import Child
from sits.runtime.host._messages import FromTeacher
from sits.runtime.host._prefixes import Prefixes
from sits.runtime.host._reactor import Reactor
from sits.runtime.kv import ImageError, KvImage
from sits.wire import PrefixTaught, TeachPrefix

_PATIENCE_S = 10.0
# Answers go before what may be needed later.
_NICENESS = 10
_log = logging.getLogger(__name__)


class Lessons:
    """The lessons of one template.

    Args:
        reactor: of the template.
        prefixes: where what is learnt goes; None: the model's prompts have no beginnings.
        board: shows who works, and gives the child its seat.
        tell: is told of each lesson's end.
    """

    def __init__(
        self,
        reactor: Reactor,
        prefixes: Prefixes | None,
        board: Board,
        tell: Callable[[PrefixTaught], None],
    ) -> None:
        self._reactor = reactor
        self._prefixes = prefixes
        self._board = board
        self._tell = tell
        self._waiting: list[tuple[TeachPrefix, float]] = []
        self._running: tuple[TeachPrefix, Child[FromTeacher]] | None = None

    @property
    def pending(self) -> bool:
        """Whether any waits for its turn."""
        return bool(self._waiting)

    def add(self, order: TeachPrefix) -> None:
        """Take a lesson in. What is known already is told at once."""
        if self._prefixes is None or self._prefixes.restore(order.prompt):
            self._end(order)
            return
        self._waiting.append((order, time.monotonic() + _PATIENCE_S))
        self.begin_due()

    def begin_due(self) -> None:
        """Begin the next lesson, if it may."""
        if self._running or not self._waiting:
            return
        order, latest_s = self._waiting[0]
        if self._board.awake() and time.monotonic() < latest_s:
            return
        del self._waiting[0]
        if self._prefixes is None or self._prefixes.restore(order.prompt):
            self._end(order)
        else:
            self._begin(order, self._prefixes)

    def close(self) -> None:
        """End the child, if there is one, and collect it."""
        if self._running:
            self._running[1].end(0.0)

    def _begin(self, order: TeachPrefix, prefixes: Prefixes) -> None:
        # Memory of both: an image may be larger than a message, and the disk may be full.
        descriptor = os.memfd_create("sits-prefix", os.MFD_CLOEXEC)
        shared = os.fdopen(descriptor, "w+b")
        seat: Seat | None = None
        try:
            seat = self._board.take()
            seat.note(awake=True)
            child = Child[FromTeacher](
                self._reactor,
                FromTeacher,
                lambda _link: _learn(order, prefixes, shared),
                on_message=lambda _message: None,
                on_end=lambda how: self._taught(order, prefixes, shared, seat, how),
            )
        except (SitsError, OSError) as error:
            shared.close()
            if seat is not None:
                seat.give_back()
            _log.warning("a prefix is not computed now: %s", error)
            self._end(order)
            return
        self._running = order, child

    def _taught(
        self,
        order: TeachPrefix,
        prefixes: Prefixes,
        shared: BinaryIO,
        seat: Seat | None,
        how: str,
    ) -> None:
        self._running = None
        if seat is not None:
            seat.give_back()
        with shared:
            shared.seek(0)
            try:
                taken = prefixes.adopt(KvImage.decode(shared.read()))
            except ImageError as error:
                _log.warning("a prefix was not computed (%s): %s", how, error)
                taken = False
        self._end(order, taken=taken)
        self.begin_due()

    def _end(self, order: TeachPrefix, *, taken: bool = True) -> None:
        tokens = len(self._prefixes.tokens(order.prompt)) if self._prefixes and taken else 0
        _log.info("the prefix of unit %s has %d tokens", order.unit, tokens)
        self._tell(PrefixTaught(order.tenant, order.unit, tokens))


def _learn(order: TeachPrefix, prefixes: Prefixes, shared: BinaryIO) -> None:
    set_process_name("sits-teacher")
    os.nice(_NICENESS)
    shared.write(prefixes.compute(order.prompt).encode())
    shared.flush()
