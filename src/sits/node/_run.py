"""The whole platform on one machine, from start to end.

Order of the start: lock, sockets' directory, TCP listener, then control, gateway. Order of the
end: the gateway first, so that running streams finish or are told; then control and hosts. The
end takes at most `drain_s` and two seconds; a second signal makes it immediate.
"""

import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from sits._errors import SitsError
from sits._process import set_process_name
from sits.models import prepare_command
from sits.node._home import (
    HomeLock,
    NodeError,
    RunningNode,
    lock_home,
    make_run_dir,
    remove_run_dir,
)
from sits.node._hosts import Hosts
from sits.node._library import Library
from sits.node._plan import HostPlan
from sits.node._process import ChildProcess, bound_logs
from sits.node._settings import Settings
from sits.node._supervisor import Supervisor
from sits.wire import ToNode, serve

_log = logging.getLogger(__name__)
_GATEWAY_EXTRA_S = 1.0
_CONTROL_S = 1.0
_PROBE_S = 0.01
_LOGS_S = 60.0
# Listening on every address: where this machine finds it.
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


async def run(
    settings: Settings,
    on_ready: Callable[[RunningNode], None] = lambda node: None,
    *,
    ready_within_s: float = 30.0,
) -> None:
    """Run the platform until SIGINT, SIGTERM, SIGHUP or a `Shutdown`.

    Args:
        settings: all of them; see there.
        on_ready: called once, when requests are taken.
        ready_within_s: how long the start may take.

    Raises:
        NodeError: the platform cannot start; the message says why.
    """
    set_process_name("sits-node")
    with (
        lock_home(settings.home) as lock,
        _listening(settings.host, settings.port) as listener,
    ):
        node = RunningNode(_url(listener), make_run_dir(settings.home), settings.drain_s)
        lock.describe(node)
        try:
            await _Node(settings, node, lock, listener).run(on_ready, ready_within_s)
        except BaseExceptionGroup as group:
            found = _first_of_ours(group)
            if found is None:
                raise
            raise found from group
        finally:
            remove_run_dir(node.run_dir)


class _Node:
    def __init__(
        self, settings: Settings, node: RunningNode, lock: HomeLock, listener: socket.socket
    ) -> None:
        self._settings = settings
        self._node = node
        self._lock = lock
        self._listener = listener
        self._log_dir = settings.home / "logs"
        self._end = anyio.Event()
        self._hurry = anyio.Event()
        self._ready = False

    async def run(self, on_ready: Callable[[RunningNode], None], ready_within_s: float) -> None:
        async with anyio.create_task_group() as tasks:
            plan = self._host_plan()
            library = Library(plan, tasks) if sys.platform == "linux" else None
            hosts = Hosts(plan, tasks, self._end.set, library)
            await tasks.start(serve, self._socket("node"), ToNode, hosts.serve)
            control = Supervisor("control", self._start_control, self._check_start)
            gateway = Supervisor("gateway", self._start_gateway, self._check_start)
            tasks.start_soon(self._watch_signals)
            if library is not None:
                tasks.start_soon(library.run)
            tasks.start_soon(control.run)
            tasks.start_soon(gateway.run)
            tasks.start_soon(self._bound_logs)
            tasks.start_soon(self._announce, on_ready, ready_within_s)
            await self._end.wait()
            _log.info("ending")
            tasks.start_soon(self._watch_hurry, control, gateway, hosts)
            await gateway.stop(self._settings.drain_s + _GATEWAY_EXTRA_S)
            async with anyio.create_task_group() as ending:
                ending.start_soon(control.stop, _CONTROL_S)
                ending.start_soon(hosts.stop)
            tasks.cancel_scope.cancel()

    async def _announce(self, on_ready: Callable[[RunningNode], None], within_s: float) -> None:
        """Wait until the gateway answers that it is ready, then tell."""
        with anyio.move_on_after(within_s):
            # A gateway is ready for its clients or not at all: its port is the one to ask.
            while not await _is_ready(self._listener.getsockname()):  # noqa: ASYNC110
                await anyio.sleep(_PROBE_S)
            ready = msgspec.structs.replace(self._node, ready=True)
            self._ready = True
            self._lock.describe(ready)
            on_ready(ready)
            return
        raise NodeError(
            f"the platform was not ready within {within_s:g} s; look into {self._log_dir}"
        )

    async def _bound_logs(self) -> None:
        while True:
            await anyio.to_thread.run_sync(bound_logs, self._log_dir)
            await anyio.sleep(_LOGS_S)

    def _check_start(self, name: str, how: str) -> None:
        """Before the platform was ready once, a service that ends is why it cannot start."""
        if not self._ready:
            raise NodeError(f"the platform cannot start: its {name} ended with {how}")

    async def _watch_signals(self) -> None:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        with anyio.open_signal_receiver(*numbers) as received:
            async for number in received:
                _log.info("received %s", signal.Signals(number).name)
                if self._end.is_set():
                    self._hurry.set()
                self._end.set()

    async def _watch_hurry(self, *parts: Supervisor | Hosts) -> None:
        await self._hurry.wait()
        for part in parts:
            part.kill_nowait()

    async def _start_control(self) -> ChildProcess:
        settings: dict[str, Any] = {
            "home": str(self._settings.home),
            "node_socket": self._socket("node"),
            "control_socket": self._socket("control"),
            "api_socket": self._socket("api"),
            "parent_pid": os.getpid(),
            "public_url": self._settings.public_url or self._node.url,
            "idle_s": self._settings.idle_s,
            "cool_s": self._settings.cool_s,
            "memory_reserve": self._settings.memory_reserve,
            "hold_s": self._settings.hold_s,
            "queue_limit": self._settings.queue_limit,
            "instance_drain_s": self._settings.instance_drain_s,
            "start_s": self._settings.start_s,
            "load_s": self._settings.load_s,
            "models_dir": str(self._settings.models_path),
            "prepare": prepare_command(self._settings.engine),
            "log_dir": str(self._log_dir),
        }
        return await ChildProcess.start(
            "control",
            "sits.control",
            settings,
            self._log_dir,
            # It may hold a password, and arguments are for everybody to read.
            environment={"SITS_STORE_URL": self._settings.store_url},
        )

    async def _start_gateway(self) -> ChildProcess:
        descriptor = self._listener.fileno()
        settings: dict[str, Any] = {
            "control_socket": self._socket("control"),
            "control_api_socket": self._socket("api"),
            "parent_pid": os.getpid(),
            "listen_fd": descriptor,
            "allowed_hosts": (*_LOOPBACK_NAMES, *_own_names(self._settings)),
            "behind_proxy": self._settings.behind_proxy,
            "first_byte_s": self._settings.first_byte_s,
            "idle_s": self._settings.stream_idle_s,
            "total_s": self._settings.stream_total_s,
            "max_body_bytes": self._settings.max_body_bytes,
            "max_messages": self._settings.max_messages,
            "max_inputs": self._settings.max_inputs,
            "max_connections": self._settings.max_connections,
            "drain_s": self._settings.drain_s,
        }
        return await ChildProcess.start(
            "gateway", "sits.gateway", settings, self._log_dir, [descriptor]
        )

    def _host_plan(self) -> HostPlan:
        return HostPlan(
            run_dir=self._node.run_dir,
            log_dir=self._log_dir,
            secrets_dir=self._settings.home / "secrets",
            engine=self._settings.engine,
            sequences=self._settings.sequences,
            sequence_tokens=self._settings.sequence_tokens,
            pool_tokens=self._settings.pool_tokens,
            kv_dir=str(self._settings.home / "kv"),
        )

    def _socket(self, name: str) -> str:
        return os.path.join(self._node.run_dir, f"{name}.sock")


def _first_of_ours(group: BaseExceptionGroup[BaseException]) -> SitsError | None:
    """Return the error of SITS in a group: it has the message for people."""
    for error in group.exceptions:
        found = _first_of_ours(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, SitsError):
            return found
    return None


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on a TCP address, for every gateway that the node will start.

    Raises:
        NodeError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: a piece must not wait for the last one's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listener.bind((host, port))
            listener.listen(1024)
        except OSError as error:
            raise NodeError(
                f"cannot listen on {host} port {port}: {error.strerror}; another program may use "
                "it: choose another with --port, or 0 for a free one"
            ) from error
        yield listener


def _url(listener: socket.socket) -> str:
    """Return the URL by which this machine reaches a listener."""
    host, port = _reachable(listener.getsockname())
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _own_names(settings: Settings) -> Iterator[str]:
    """Give the names, beside loopback's, under which the platform is asked."""
    yield from settings.allowed_hosts
    public = urlsplit(settings.public_url).hostname
    if public:
        yield public
    if settings.host not in _EVERY_ADDRESS:
        yield f"[{settings.host}]" if ":" in settings.host else settings.host


async def _is_ready(address: Any) -> bool:
    """Ask the gateway's `/readyz`, over a plain socket."""
    with contextlib.suppress(OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        with anyio.move_on_after(1.0):
            async with await anyio.connect_tcp(*_reachable(address)) as stream:
                await stream.send(
                    b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                )
                return b" 200 " in await stream.receive()
    return False


def _reachable(address: Any) -> tuple[str, int]:
    return _EVERY_ADDRESS.get(address[0], address[0]), address[1]
