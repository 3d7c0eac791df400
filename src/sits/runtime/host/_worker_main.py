"""A worker's process: its loop, between a fork and the end of its last instance."""

import logging
import socket

from sits._process import set_process_name
from sits.runtime.batch import BatchRules
from sits.runtime.engine import EngineError
from sits.runtime.host._adapters import Traffic
from sits.runtime.host._board import Seat
from sits.runtime.host._cores import SpareCores
from sits.runtime.host._memory import limit_memory
from sits.runtime.host._messages import FromForkedWorker, StartWorker
from sits.runtime.host._places import Places
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._runner import Runner, monotonic_us
from sits.runtime.host._worker import WorkerServer
from sits.sandbox import Limits
from sits.wire import FrameSocket, Instance, InstanceGone, InstanceReady, StopInstance

# A worker is one tenant's, so the kernel may end it when a template hangs where no exception
# reaches; its other requests are told, and the next ones get another.
_WORKER_LIMITS = Limits(kill_s=3.0)

_log = logging.getLogger(__name__)


def run_worker(
    link: socket.socket, first: StartWorker, runner: Runner, seat: Seat, places: Places
) -> None:
    """Be a worker, of `first` and what the template adds, until the last of them has ended."""
    set_process_name("sits-worker")
    limit_memory(places.worker_bytes)
    worker = _Worker(link, runner, seat, places)
    worker.start(first)
    while not worker.server.stopped and not worker.up.closed:
        worker.turn()
    worker.leave()


class _Worker:
    """The loop's state."""

    def __init__(self, link: socket.socket, runner: Runner, seat: Seat, places: Places) -> None:
        self.up: FrameSocket[StartWorker | StopInstance] = FrameSocket(
            link, StartWorker | StopInstance
        )
        self._runner = runner
        self._seat = seat
        self._places = places
        self._reactor = Reactor()
        cores = SpareCores()
        rules = BatchRules(
            rendering=_WORKER_LIMITS, threads=lambda: min(seat.threads(), cores.count())
        )
        self._batcher = runner.make_batcher(monotonic_us, rules)
        self.server = WorkerServer(self._reactor, self._batcher, on_gone=self._gone)
        self._reactor.watch(self.up, self._receive)

    def start(self, start: StartWorker) -> None:
        """Serve an instance, and say so."""
        order = start.order
        endpoint = self._places.socket(order.instance)
        traffic = Traffic(order.adapters)
        try:
            for adapters in traffic.sets:
                self._runner.load_adapters(adapters)
            self.server.open(order.instance, order.unit, endpoint, traffic.choose)
        except EngineError as error:
            self._tell(InstanceGone(order.instance, "start_failed", str(error)))
            return
        except OSError as error:
            message = f"{endpoint} cannot be listened on: {error}"
            self._tell(InstanceGone(order.instance, "start_failed", message))
            return
        self._batcher.aim(order.unit, order.itl_ms)
        value = Instance(endpoint, start.tier, self._runner.capacity)
        self._tell(InstanceReady(order.instance, order.tenant, order.unit, value))

    def turn(self) -> None:
        """Wait for work, do one step of it, and leave word of it."""
        wait_s = self.server.wait_s()
        if wait_s != 0.0:
            self._seat.note(awake=False)
        self._reactor.turn(wait_s)
        self._seat.note(awake=True, longest_us=self._batcher.step_us)
        self.server.step()

    def leave(self) -> None:
        """Hand over the last words."""
        self._seat.note(awake=False)
        self.up.flush_nowait()

    def _receive(self) -> None:
        self.up.flush_nowait()
        for order in self.up.receive_nowait():
            if isinstance(order, StartWorker):
                self.start(order)
            else:
                self.server.drain(order.instance, order.drain_s)

    def _gone(self, name: str) -> None:
        self._tell(InstanceGone(name, "stopped", "it was asked to stop"))

    def _tell(self, event: FromForkedWorker) -> None:
        self.up.send_nowait(event)
        if not self.up.closed:
            self._reactor.want_write(self.up, self.up.wants_write)
