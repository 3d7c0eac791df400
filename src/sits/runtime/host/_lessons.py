"""What a template is taught: the constant beginnings of prompts, computed by a child of it.

The template computes nothing itself, so that forks never wait for it. A beginning that is kept in
a file is there at once. Any other is computed by one child at a time, with a seat on the board, so
that workers leave it a core; it begins when no worker has anything to do, or after `_PATIENCE_S`.

A unit's beginning is computed with each set of adapters that its requests get: nothing of one is
true of another.
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from sits._errors import SitsError
from sits._process import set_process_name
from sits.runtime.engine import AdapterSet
from sits.runtime.host._adapters import Traffic
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


@dataclass(eq=False)
class _Lesson:
    """One order.

    Attributes:
        sets: with which it is to be computed still.
        latest_s: when it begins, whoever works.
        taken: whether the template has what was computed of it.
    """

    order: TeachPrefix
    sets: list[AdapterSet]
    latest_s: float
    taken: bool = True


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
        self._waiting: list[_Lesson] = []
        self._running: Child[FromTeacher] | None = None

    @property
    def pending(self) -> bool:
        """Whether any waits for its turn."""
        return bool(self._waiting)

    def add(self, order: TeachPrefix) -> None:
        """Take a lesson in. What is known already is told at once."""
        sets = list(Traffic(order.adapters).sets)
        lesson = _Lesson(order, sets, time.monotonic() + _PATIENCE_S)
        if self._is_learnt(lesson):
            self._end(lesson)
            return
        self._waiting.append(lesson)
        self.begin_due()

    def begin_due(self) -> None:
        """Begin the next lesson, if it may."""
        if self._running or not self._waiting:
            return
        lesson = self._waiting[0]
        if self._board.awake() and time.monotonic() < lesson.latest_s:
            return
        del self._waiting[0]
        if self._prefixes is None or self._is_learnt(lesson):
            self._end(lesson)
        else:
            self._begin(lesson, self._prefixes)

    def close(self) -> None:
        """End the child, if there is one, and collect it."""
        if self._running:
            self._running.end(0.0)

    def _is_learnt(self, lesson: _Lesson) -> bool:
        """Return whether nothing of a lesson is to be computed; forgets what is there already."""
        if self._prefixes is None:
            return True
        prompt = lesson.order.prompt
        while lesson.sets and self._prefixes.restore(prompt, lesson.sets[0].digest):
            del lesson.sets[0]
        return not lesson.sets

    def _begin(self, lesson: _Lesson, prefixes: Prefixes) -> None:
        # Memory of both: an image may be larger than a message, and the disk may be full.
        descriptor = os.memfd_create("sits-prefix", os.MFD_CLOEXEC)
        shared = os.fdopen(descriptor, "w+b")
        seat: Seat | None = None
        try:
            seat = self._board.take()
            seat.note(awake=True)
            self._running = Child[FromTeacher](
                self._reactor,
                FromTeacher,
                lambda _link: _learn(lesson, prefixes, shared),
                on_message=lambda _message: None,
                on_end=lambda how: self._taught(lesson, prefixes, shared, seat, how),
            )
        except (SitsError, OSError) as error:
            shared.close()
            if seat is not None:
                seat.give_back()
            _log.warning("a prefix is not computed now: %s", error)
            self._end(lesson)

    def _taught(
        self,
        lesson: _Lesson,
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
        del lesson.sets[0]
        lesson.taken = lesson.taken and taken
        if lesson.sets:
            self._waiting.insert(0, lesson)
        else:
            self._end(lesson)
        self.begin_due()

    def _end(self, lesson: _Lesson) -> None:
        order = lesson.order
        known = self._prefixes if lesson.taken else None
        tokens = len(known.tokens(order.prompt)) if known else 0
        _log.info("the prefix of unit %s has %d tokens", order.unit, tokens)
        self._tell(PrefixTaught(order.tenant, order.unit, tokens))


def _learn(lesson: _Lesson, prefixes: Prefixes, shared: BinaryIO) -> None:
    set_process_name("sits-teacher")
    os.nice(_NICENESS)
    shared.write(prefixes.compute(lesson.order.prompt, lesson.sets[0]).encode())
    shared.flush()
