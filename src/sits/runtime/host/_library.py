"""The library host: the engine's library imported, no weights; model hosts are forked from it.

Of models that were served before it keeps the vocabularies and the compiled chat templates.

    python -m sits.runtime.host._library '<json LibrarySettings>'     by exec, from the node

So a host starts without what Python and the engine's library take to be imported. A forked host
runs what an exec of `sits.runtime.host` runs: in a session of its own, with its own log.

Invariants: it holds no weights, no tenant's tokens and no secret; it has one thread; it ends with
the node, and every host that was forked from it ends with it, however it ends.
"""

import importlib
import logging
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from signal import SIGKILL, SIGTERM
from typing import Any

import msgspec

from sits._errors import SitsError
from sits.observe import run_service
from sits.runtime.batch import compile_template
from sits.runtime.engine import LLAMACPP
from sits.runtime.host._fork import fork_child, reap
from sits.runtime.host._main import run as run_host
from sits.runtime.host._reactor import Reactor
from sits.wire import FrameSocket, FromNode, HostDown, HostUp, StartHost, StopHost

_REAP_S = 0.2
# A host ends so when it was asked to, after its model was loaded.
_WELL = "exit status 0"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LibrarySettings:
    """Settings of the library host.

    Attributes:
        parent_pid: the process that started it; it ends with that.
        link_fd: a connected unix socket, on which it takes `StartHost` and `StopHost` and tells
            `HostUp` and `HostDown`.
        sockets_dir: where a host listens, as `NAME.sock`.
        log_dir: where a host logs, as `NAME.log`.
        engine: the engine's factory, `package.module:function`.
        host: what all hosts' settings have in common beside that: fields of `HostSettings`.
    """

    parent_pid: int
    link_fd: int
    sockets_dir: str
    log_dir: str
    engine: str = LLAMACPP
    host: dict[str, Any] = field(default_factory=dict)


def run(arguments: Sequence[str]) -> int:
    """Run the library host until its link closes; return its exit status.

    Args:
        arguments: one, `LibrarySettings` as JSON.
    """
    return run_service("library", arguments, LibrarySettings, _serve)


def _serve(settings: LibrarySettings) -> None:
    import_engine(settings.engine)
    reactor = Reactor()
    link: Link = FrameSocket(socket.socket(fileno=settings.link_fd), StartHost | StopHost)
    library = LibraryHost(reactor, link, settings)
    reactor.watch(link, library.receive)
    while not link.closed:
        reactor.turn(None)


def import_engine(factory: str) -> None:
    """Import an engine's module and start its library, once for all hosts.

    One that cannot be imported is not reported here: each host tries again, and says so.
    """
    try:
        module = importlib.import_module(factory.partition(":")[0])
    except (ImportError, SitsError) as error:
        _log.warning("engine %r cannot be imported yet: %s", factory, error)
        return
    start = getattr(module, "start_library", None)
    if start is not None:
        start()


def remember(factory: str, model_path: str) -> None:
    """Keep what hosts of a model need beside its weights, where its engine can.

    Its chat template is compiled, too: a host of it has done that before, within its limits.
    """
    module = sys.modules.get(factory.partition(":")[0])
    keep = getattr(module, "remember", None)
    if keep is not None:
        try:
            vocabulary = keep(model_path)
            if vocabulary is not None:
                compile_template(vocabulary)
        except OSError as error:
            _log.info("%s is not remembered: %s", model_path, error)


Link = FrameSocket[StartHost | StopHost]


class _Forked:
    """A host as the library host sees it: its process, which may be read when it has ended."""

    def __init__(self, pid: int, model_path: str) -> None:
        self.pid = pid
        self.model_path = model_path
        self.stops = 0
        self._pidfd = os.pidfd_open(pid)

    def fileno(self) -> int:
        return self._pidfd

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class LibraryHost:
    """Forks hosts at the word of whoever holds the other end of `link`.

    Args:
        reactor: turned by its owner.
        link: orders come in, and what happens goes out.
        settings: see there.
    """

    def __init__(self, reactor: Reactor, link: Link, settings: LibrarySettings) -> None:
        self._reactor = reactor
        self._link = link
        self._settings = settings
        self._hosts: dict[str, _Forked] = {}

    def receive(self) -> None:
        """Obey what has come. The first `StopHost` asks a host to end, the next one kills it."""
        self._link.flush_nowait()
        for order in self._link.receive_nowait():
            if isinstance(order, StartHost):
                self._start(order)
            elif order.host in self._hosts:
                host = self._hosts[order.host]
                host.stops += 1
                os.kill(host.pid, SIGTERM if host.stops == 1 else SIGKILL)
        self._settle()

    def _start(self, order: StartHost) -> None:
        endpoint = os.path.join(self._settings.sockets_dir, f"{order.host}.sock")
        if order.host not in self._hosts:
            try:
                pid = fork_child(lambda: self._be_host(order, endpoint))
                host = _Forked(pid, order.model_path)
            except (SitsError, OSError) as error:
                self._tell(HostDown(order.host, f"no process for it: {error}"))
                return
            _log.info("started %s (pid %d)", order.host, host.pid)
            self._hosts[order.host] = host
            self._reactor.watch(host, lambda: self._ended(order.host))
        self._tell(HostUp(order.host, endpoint))

    def _be_host(self, order: StartHost, endpoint: str) -> None:
        """Be a host, in the child: nothing of the library host's own is left open."""
        self._reactor.close_all()
        os.setsid()
        log_to(os.path.join(self._settings.log_dir, f"{order.host}.log"))
        settings = {
            **self._settings.host,
            "model_path": order.model_path,
            "endpoint": endpoint,
            "engine": self._settings.engine,
            "parent_pid": os.getppid(),
        }
        status = _exit_status(msgspec.json.encode(settings).decode())
        if status:
            logging.shutdown()
            os._exit(status)

    def _ended(self, name: str) -> None:
        host = self._hosts.pop(name)
        self._reactor.forget(host)
        how = reap(host.pid, _REAP_S)
        _log.info("%s ended: %s", name, how)
        self._tell(HostDown(name, how))
        if how == _WELL:
            remember(self._settings.engine, host.model_path)

    def _tell(self, event: FromNode) -> None:
        self._link.send_nowait(event)
        self._settle()

    def _settle(self) -> None:
        if not self._link.closed:
            self._reactor.want_write(self._link, self._link.wants_write)


def _exit_status(settings: str) -> int:
    try:
        return run_host([settings])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


def log_to(path: str) -> None:
    """Have this process's output go to the end of a file that its owner alone can read."""
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.close(log)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
