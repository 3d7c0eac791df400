"""A tenant's template: it takes the engine's memory once, then forks workers for instances.

The pool is in its memory before the fork, with the constant beginnings of the tenant's prompts
(`_lessons`), so a worker starts with them, and copies only the pages that it writes.

Instances of different units share a worker, and so its pool; a second instance of one unit gets
a worker of its own.
"""

import contextlib
import logging
import os
import socket
import time
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from sits._errors import SitsError
from sits._process import set_process_name
from sits.runtime.engine import EngineError, Model, PoolShape
from sits.runtime.host._adapters import Traffic
from sits.runtime.host._board import Board, Seat
from sits.runtime.host._child import Child
from sits.runtime.host._lessons import Lessons
from sits.runtime.host._messages import FromForkedWorker, StartWorker, ToTemplate
from sits.runtime.host._places import Places
from sits.runtime.host._prefixes import Prefixes
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._runner import Runner, make_runner
from sits.runtime.host._watch import POLL_S, Watch, is_stopped
from sits.runtime.host._worker_main import run_worker
from sits.wire import (
    FrameSocket,
    InstanceGone,
    InstanceReady,
    PrefixTaught,
    StartInstance,
    StopInstance,
    TeachPrefix,
    TemplateFailed,
    TemplateReady,
    Tier,
    UnitAdapter,
    take_prompt_in,
)

# How long after its drain a worker may take to end by itself.
_OVERDUE_S = 1.0

_KILLED = "killed by SIGKILL"

# Sets of adapters that a template holds for its forks, for its life.
_MOST_INHERITED = 16

_log = logging.getLogger(__name__)


def run_template(
    link: socket.socket, model: Model, shape: PoolShape, places: Places, tenant: str
) -> None:
    """Be the template of `tenant` until the base host closes `link`."""
    set_process_name("sits-template")
    up: FrameSocket[ToTemplate] = FrameSocket(link, ToTemplate)
    began = time.monotonic()
    try:
        runner = make_runner(model, shape)
        board = Board(places.board)
    except (EngineError, OSError) as error:
        up.send_nowait(TemplateFailed(tenant, str(error)))
        return
    _log.info("template of tenant %s ready in %.0f ms", tenant, (time.monotonic() - began) * 1e3)
    reactor = Reactor()
    prefixes = runner.make_prefixes(places.prefixes(tenant, model.info))
    template = _Template(reactor, up, runner, prefixes, board, places)
    reactor.watch(up, template.receive)
    up.send_nowait(TemplateReady(tenant))
    while not up.closed:
        reactor.turn(template.wait_s())
        template.look_after()
    template.close()


@dataclass(eq=False)
class _Worker:
    """A process with instances.

    Attributes:
        units, adapters: each instance's.
        up: instances that have come up.
        stop_until_s: when an instance must have ended, of those that were told to.
        doom: why it was killed, if it was.
    """

    name: str
    seat: Seat
    child: Child[FromForkedWorker] | None = None
    units: dict[str, str] = field(default_factory=dict)
    adapters: dict[str, tuple[UnitAdapter, ...]] = field(default_factory=dict)
    up: set[str] = field(default_factory=set)
    stop_until_s: dict[str, float] = field(default_factory=dict)
    doom: str = ""

    def takes(self, unit: str) -> bool:
        """Return whether an instance of a unit may join: it stays, and has none of that unit."""
        stays = bool(self.units) and not self.doom and not self.stop_until_s
        return stays and unit not in self.units.values()

    def send(self, message: StartWorker | StopInstance) -> None:
        """Tell the process."""
        if self.child is not None:
            self.child.send(message)


class _Template:
    """The loop's state: the link up, and a child for each worker."""

    def __init__(
        self,
        reactor: Reactor,
        up: FrameSocket[ToTemplate],
        runner: Runner,
        prefixes: Prefixes | None,
        board: Board,
        places: Places,
    ) -> None:
        self._reactor = reactor
        self._up = up
        self._runner = runner
        self._prefixes = prefixes
        self._board = board
        self._places = places
        self._workers: dict[str, _Worker] = {}
        self._hosts: dict[str, _Worker] = {}
        self._watch = Watch()
        self._lessons = Lessons(reactor, prefixes, board, self._tell)
        self._inherited: set[str] = set()

    def receive(self) -> None:
        """Obey the base host."""
        self._up.flush_nowait()
        for order in self._up.receive_nowait():
            if isinstance(order, StartWorker):
                self._start(StartWorker(_with_words(order.order), order.tier))
            elif isinstance(order, TeachPrefix):
                self._lessons.add(_with_words(order))
            else:
                self._stop(order)

    def wait_s(self) -> float | None:
        """Return how long the loop may wait before `look_after`; None: until a message."""
        return POLL_S if self._workers or self._lessons.pending else None

    def look_after(self) -> None:
        """Kill workers that should have ended, or that do not go on: they cannot obey."""
        now_s = time.monotonic()
        self._lessons.begin_due()
        for worker in self._workers.values():
            late = [name for name, until_s in worker.stop_until_s.items() if now_s >= until_s]
            for name in late:
                self._kill(worker, f"its instance {name} did not end in time")
                worker.stop_until_s[name] = now_s + _OVERDUE_S
        glances = {
            worker.name: (worker.seat.glance(), is_stopped(worker.child.pid))
            for worker in self._workers.values()
            if worker.child is not None
        }
        for name, reason in self._watch.look(glances, now_s).items():
            self._kill(self._workers[name], reason)

    def close(self) -> None:
        """End and collect all children."""
        for worker in self._workers.values():
            if worker.child is not None:
                worker.child.end(0.0)
            worker.seat.give_back()
        self._lessons.close()

    # instances

    def _start(self, start: StartWorker) -> None:
        order = start.order
        if self._prefixes is not None:
            for adapters in Traffic(order.adapters).sets:
                self._prefixes.restore(order.prompt, adapters.digest)
        for worker in self._workers.values():
            if worker.takes(order.unit):
                worker.units[order.instance] = order.unit
                worker.adapters[order.instance] = order.adapters
                self._hosts[order.instance] = worker
                worker.send(StartWorker(order, Tier.HOT))
                return
        self._fork(start)

    def _fork(self, start: StartWorker) -> None:
        name = start.order.instance
        try:
            worker = _Worker(name, self._board.take())
        except EngineError as error:
            self._tell(InstanceGone(name, "start_failed", str(error)))
            return

        def body(link: socket.socket) -> None:
            run_worker(link, start, self._runner, worker.seat, self._places)

        try:
            worker.child = Child[FromForkedWorker](
                self._reactor,
                FromForkedWorker,
                body,
                on_message=lambda message: self._from_worker(worker, message),
                on_end=lambda how: self._ended(worker, how),
            )
        except (SitsError, OSError) as error:
            worker.seat.give_back()
            self._tell(InstanceGone(name, "start_failed", f"no process for it: {error}"))
            return
        worker.units[name] = start.order.unit
        worker.adapters[name] = start.order.adapters
        self._workers[name] = self._hosts[name] = worker

    def _stop(self, order: StopInstance) -> None:
        worker = self._hosts.get(order.instance)
        if worker is None:
            self._tell(InstanceGone(order.instance, "stopped", "it was not there"))
            return
        worker.stop_until_s[order.instance] = time.monotonic() + order.drain_s + _OVERDUE_S
        worker.send(order)

    def _kill(self, worker: _Worker, reason: str) -> None:
        _log.warning("worker %s is killed: %s", worker.name, reason)
        worker.doom = worker.doom or reason
        if worker.child is not None:
            worker.child.kill()

    def _from_worker(self, worker: _Worker, message: FromForkedWorker) -> None:
        if isinstance(message, InstanceReady):
            worker.up.add(message.instance)
            self._tell(message)
            self._inherit(worker.adapters.pop(message.instance, ()))
        else:
            self._gone(worker, message.instance, message.message, code=message.code)

    def _ended(self, worker: _Worker, how: str) -> None:
        del self._workers[worker.name]
        worker.seat.give_back()
        reason = f"{how}: {worker.doom}" if worker.doom else how
        if how == _KILLED and not worker.doom:
            reason = f"{how}, perhaps by the kernel when the machine was out of memory"
        for name in list(worker.units):
            self._gone(worker, name, reason)

    def _gone(self, worker: _Worker, name: str, how: str, code: str = "") -> None:
        worker.units.pop(name, None)
        worker.adapters.pop(name, None)
        self._hosts.pop(name, None)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._places.socket(name))
        asked = worker.stop_until_s.pop(name, None) is not None
        lost = "instance_lost" if name in worker.up else "start_failed"
        code = "stopped" if asked else code or lost
        _log.info("instance %s ended: %s (%s)", name, code, how)
        self._tell(InstanceGone(name, code, how))

    def _inherit(self, adapters: tuple[UnitAdapter, ...]) -> None:
        """Load what a worker could load, so that the next ones have it from their start.

        Not before: a file that ends the process that reads it ends no template.
        """
        for each in Traffic(adapters).sets:
            if len(self._inherited | {each.digest}) > _MOST_INHERITED:
                return  # workers load the others themselves, in milliseconds
            try:
                self._runner.load_adapters(each)
            except EngineError as error:
                _log.warning("adapters are left to workers: %s", error)
            else:
                self._inherited.add(each.digest)

    def _tell(self, event: InstanceReady | InstanceGone | PrefixTaught) -> None:
        self._up.send_nowait(event)
        if not self._up.closed:
            self._reactor.want_write(self._up, self._up.wants_write)


_O = TypeVar("_O", StartInstance, TeachPrefix)


def _with_words(order: _O) -> _O:
    return msgspec.structs.replace(order, prompt=take_prompt_in(order.prompt))
