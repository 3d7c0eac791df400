"""A tenant's template: it takes the KV pool once, then forks a worker for each instance.

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
from sits.runtime.batch import Batcher
from sits.runtime.engine import Engine, EngineError, Model, PoolShape
from sits.runtime.host._child import Child
from sits.runtime.host._messages import FromForkedWorker, StartWorker, ToTemplate
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._worker import WorkerServer, monotonic_us
from sits.wire import (
    FrameSocket,
    Instance,
    InstanceGone,
    InstanceReady,
    StopInstance,
    TemplateFailed,
    TemplateReady,
)

_log = logging.getLogger(__name__)


def run_template(
    link: socket.socket, model: Model, shape: PoolShape, run_dir: str, tenant: str
) -> None:
    """Be the template of `tenant` until the base host closes `link`."""
    set_process_name("sits-template")
    up: FrameSocket[ToTemplate] = FrameSocket(link, ToTemplate)
    began = time.monotonic()
    try:
        engine = model.make_engine(shape)
    except EngineError as error:
        up.send_nowait(TemplateFailed(tenant, str(error)))
        return
    _log.info("template of tenant %s ready in %.0f ms", tenant, (time.monotonic() - began) * 1e3)
    reactor = Reactor()
    template = _Template(reactor, up, model, engine, run_dir)
    reactor.watch(up, template.receive)
    up.send_nowait(TemplateReady(tenant))
    while not up.closed:
        reactor.turn(None)
    template.close()


class _Template:
    """The loop's state: the link up, and a child for each instance."""

    def __init__(
        self,
        reactor: Reactor,
        up: FrameSocket[ToTemplate],
        model: Model,
        engine: Engine,
        run_dir: str,
    ) -> None:
        self._reactor = reactor
        self._up = up
        self._model = model
        self._engine = engine
        self._run_dir = run_dir
        self._workers: dict[str, Child[FromForkedWorker]] = {}
        self._asked_to_stop: set[str] = set()

    def receive(self) -> None:
        """Obey the base host."""
        self._up.flush_nowait()
        for order in self._up.receive_nowait():
            if isinstance(order, StartWorker):
                self._start(order)
            elif order.instance in self._workers:
                self._asked_to_stop.add(order.instance)
                self._workers[order.instance].send(order)
            else:
                self._tell(InstanceGone(order.instance, "stopped", "it was not there"))

    def close(self) -> None:
        """End and collect all workers."""
        for worker in self._workers.values():
            worker.end(0.0)

    def _start(self, start: StartWorker) -> None:
        order = start.order
        name = order.instance
        endpoint = os.path.join(self._run_dir, f"{name}.sock")

        def body(link: socket.socket) -> None:
            value = Instance(endpoint, start.tier, self._engine.shape.sequences)
            ready = InstanceReady(name, order.tenant, order.unit, value)
            run_worker(link, ready, Batcher(self._model, self._engine, monotonic_us))

        try:
            self._workers[name] = Child[FromForkedWorker](
                self._reactor,
                FromForkedWorker,
                body,
                on_message=self._tell,
                on_end=lambda how: self._ended(name, endpoint, how),
            )
        except (SitsError, OSError) as error:
            self._tell(InstanceGone(name, "start_failed", f"no process for it: {error}"))

    def _ended(self, name: str, endpoint: str, how: str) -> None:
        del self._workers[name]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(endpoint)
        code = "stopped" if name in self._asked_to_stop else "instance_lost"
        self._asked_to_stop.discard(name)
        _log.info("instance %s ended: %s (%s)", name, code, how)
        self._tell(InstanceGone(name, code, how))

    def _tell(self, event: InstanceReady | InstanceGone) -> None:
        self._up.send_nowait(event)
        if not self._up.closed:
            self._reactor.want_write(self._up, self._up.wants_write)


def run_worker(link: socket.socket, ready: InstanceReady, batcher: Batcher) -> None:
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
