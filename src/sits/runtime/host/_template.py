"""A tenant's template: it takes the engine's memory once, then forks a worker for each instance.

The pool is in its memory before the fork, so a worker starts with it, and copies only the pages
that it writes. A template runs nothing itself.
"""

import contextlib
import logging
import os
import socket
import time

from sits._errors import SitsError
from sits._process import set_process_name
from sits.runtime.engine import EngineError, Model, PoolShape
from sits.runtime.host._child import Child
from sits.runtime.host._messages import FromForkedWorker, StartWorker, ToTemplate
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._runner import AnyBatcher, Runner, make_runner
from sits.runtime.host._worker import WorkerServer, monotonic_us
from sits.sandbox import Limits
from sits.wire import (
    FrameSocket,
    Instance,
    InstanceGone,
    InstanceReady,
    StopInstance,
    TemplateFailed,
    TemplateReady,
)

# How long after its drain a worker may take to end by itself.
_OVERDUE_S = 1.0

# A worker is one tenant's, so the kernel may end it when a template hangs where no exception
# reaches; its other requests are told, and the next ones get another.
_WORKER_LIMITS = Limits(kill_s=3.0)

_log = logging.getLogger(__name__)


def run_template(
    link: socket.socket, model: Model, shape: PoolShape, run_dir: str, tenant: str
) -> None:
    """Be the template of `tenant` until the base host closes `link`."""
    set_process_name("sits-template")
    up: FrameSocket[ToTemplate] = FrameSocket(link, ToTemplate)
    began = time.monotonic()
    try:
        runner = make_runner(model, shape)
    except EngineError as error:
        up.send_nowait(TemplateFailed(tenant, str(error)))
        return
    _log.info("template of tenant %s ready in %.0f ms", tenant, (time.monotonic() - began) * 1e3)
    reactor = Reactor()
    template = _Template(reactor, up, runner, run_dir)
    reactor.watch(up, template.receive)
    up.send_nowait(TemplateReady(tenant))
    while not up.closed:
        reactor.turn(template.wait_s())
        template.kill_overdue()
    template.close()


class _Template:
    """The loop's state: the link up, and a child for each instance."""

    def __init__(
        self,
        reactor: Reactor,
        up: FrameSocket[ToTemplate],
        runner: Runner,
        run_dir: str,
    ) -> None:
        self._reactor = reactor
        self._up = up
        self._runner = runner
        self._run_dir = run_dir
        self._workers: dict[str, Child[FromForkedWorker]] = {}
        self._stop_until_s: dict[str, float] = {}
        self._up_once: set[str] = set()

    def receive(self) -> None:
        """Obey the base host."""
        self._up.flush_nowait()
        for order in self._up.receive_nowait():
            if isinstance(order, StartWorker):
                self._start(order)
            elif order.instance in self._workers:
                until_s = time.monotonic() + order.drain_s + _OVERDUE_S
                self._stop_until_s[order.instance] = until_s
                self._workers[order.instance].send(order)
            else:
                self._tell(InstanceGone(order.instance, "stopped", "it was not there"))

    def wait_s(self) -> float | None:
        """Return how long the loop may wait before `kill_overdue`; None: until a message."""
        if not self._stop_until_s:
            return None
        return max(0.0, min(self._stop_until_s.values()) - time.monotonic())

    def kill_overdue(self) -> None:
        """Kill workers that should have ended: one that hangs cannot obey."""
        now_s = time.monotonic()
        for name, until_s in self._stop_until_s.items():
            if now_s >= until_s:
                _log.warning("instance %s did not end in time and is killed", name)
                self._workers[name].kill()
                self._stop_until_s[name] = now_s + _OVERDUE_S

    def close(self) -> None:
        """End and collect all workers."""
        for worker in self._workers.values():
            worker.end(0.0)

    def _start(self, start: StartWorker) -> None:
        order = start.order
        name = order.instance
        endpoint = os.path.join(self._run_dir, f"{name}.sock")

        def body(link: socket.socket) -> None:
            value = Instance(endpoint, start.tier, self._runner.capacity)
            ready = InstanceReady(name, order.tenant, order.unit, value)
            batcher = self._runner.make_batcher(monotonic_us, _WORKER_LIMITS)
            run_worker(link, ready, batcher)

        try:
            self._workers[name] = Child[FromForkedWorker](
                self._reactor,
                FromForkedWorker,
                body,
                on_message=self._came_up,
                on_end=lambda how: self._ended(name, endpoint, how),
            )
        except (SitsError, OSError) as error:
            self._tell(InstanceGone(name, "start_failed", f"no process for it: {error}"))

    def _came_up(self, ready: InstanceReady) -> None:
        self._up_once.add(ready.instance)
        self._tell(ready)

    def _ended(self, name: str, endpoint: str, how: str) -> None:
        del self._workers[name]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(endpoint)
        asked = self._stop_until_s.pop(name, None) is not None
        lost = "instance_lost" if name in self._up_once else "start_failed"
        self._up_once.discard(name)
        code = "stopped" if asked else lost
        _log.info("instance %s ended: %s (%s)", name, code, how)
        self._tell(InstanceGone(name, code, how))

    def _tell(self, event: InstanceReady | InstanceGone) -> None:
        self._up.send_nowait(event)
        if not self._up.closed:
            self._reactor.want_write(self._up, self._up.wants_write)


def run_worker(link: socket.socket, ready: InstanceReady, batcher: AnyBatcher) -> None:
    """Be a worker until it is stopped or the template closes `link`; says `ready` first."""
    set_process_name("sits-worker")
    up: FrameSocket[StopInstance] = FrameSocket(link, StopInstance)
    reactor = Reactor()
    server = WorkerServer(reactor, batcher, ready.value.endpoint)

    def receive() -> None:
        for order in up.receive_nowait():
            server.drain(order.drain_s)

    reactor.watch(up, receive)
    up.send_nowait(ready)
    while not server.stopped and not up.closed:
        reactor.turn(server.wait_s())
        server.step()
