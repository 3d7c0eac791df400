"""The gateway as a whole: what it is made of, how it starts and how it ends.

The end, from the moment `stop` is set: no connection is accepted and no request admitted;
what waits is answered 503 at once; what runs may finish for `drain_s` seconds and is then told
(`server_shutting_down`); everything is over `drain_s` + 1 seconds after the start of it.
"""

import contextlib
import logging
import socket
from collections.abc import Generator, MutableMapping
from typing import Any, cast

import anyio
import anyio.abc
import uvicorn

from sits._settings import SettingsError
from sits.gateway._activator import Activator
from sits.gateway._control_link import ControlLink
from sits.gateway._edge import App, Edge
from sits.gateway._endpoints import Generation, Listing, make_routes
from sits.gateway._errors import shutting_down
from sits.gateway._metrics import Metrics
from sits.gateway._protocol import make_protocol
from sits.gateway._proxy import ControlProxy, Linked
from sits.gateway._relay import Relay
from sits.gateway._settings import Settings
from sits.gateway._table import RoutingTable
from sits.wire import FromControl, Load, PieceAdapter, Table

# What is left of the second after a drain: to write the last events, then to close.
_LAST_WORDS_S = 0.5
_BACKLOG = 2048

log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs the process, and can be ended in the middle."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def cut_off(self) -> None:
        """Close what is still open. After an ordinary end there is nothing."""
        for listening in getattr(self, "servers", ()):
            listening.close()
        for task in list(self.server_state.tasks):
            task.cancel()
        for connection in list(self.server_state.connections):
            connection.transport.close()


class Gateway:
    """The parts, wired together.

    Args:
        settings: see `Settings`.
        group: where links run.
        proxy: hands control's part of the API on.
    """

    def __init__(self, settings: Settings, group: anyio.abc.TaskGroup, proxy: ControlProxy) -> None:
        self._settings = settings
        self.table = RoutingTable()
        self.control = ControlLink(settings.control_socket, self.take, self._load)
        self.activator = Activator(group, self.control.notify)
        self.metrics = Metrics(self.table.has, self.activator.loads)
        self._listing = Listing(self.table, self.metrics)
        relay = Relay(self.activator, settings)
        control_api = Linked(proxy, self.control.wait_until_told)
        routes = make_routes(self._listing, Generation(self.table, relay, settings), control_api)
        self._edge = Edge(
            cast("App", routes), self.table, settings.allowed_hosts, self.metrics.note
        )
        self.pieces = 0
        self.app: App = PieceAdapter(self._edge, self._on_piece)

    def take(self, table: FromControl) -> None:
        """Take over a new table from control.

        Raises:
            WireError: it is a change of another table than the one that is here.
        """
        if isinstance(table, Table):
            self.table.replace(table)
            self.activator.apply(table.units)
        else:
            self.table.patch(table)
            self.activator.change(table.units, table.gone)
        self.metrics.forget_gone()
        log.info(
            "event=table version=%d units=%d keys=%d",
            table.version,
            len(table.units),
            len(table.keys or ()),
        )

    def _load(self) -> Load:
        return Load(self.activator.loads(), self.table.version)

    def close_doors(self) -> None:
        """Admit nothing more, and answer what waits."""
        self._listing.draining = self._edge.draining = True
        self.activator.close(shutting_down)

    def _on_piece(self, event: MutableMapping[str, Any]) -> None:
        self.pieces += 1


async def run(
    settings: Settings,
    *,
    stop: anyio.Event | None = None,
    task_status: anyio.abc.TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop` is set and the drain is over. Cancelling ends it at once.

    Args:
        settings: see `Settings`.
        stop: set it to end the gateway; None: it runs until it is cancelled.
        task_status: started with the TCP port, once it is listened on.

    Raises:
        SettingsError: the address cannot be listened on.
    """
    listener = _listen(settings)
    port: int = listener.getsockname()[1]
    async with ControlProxy(settings) as proxy, anyio.create_task_group() as group:
        gateway = Gateway(settings, group, proxy)
        group.start_soon(gateway.control.run)
        server = _Server(
            uvicorn.Config(
                # Starlette and uvicorn write the same protocol in types that do not meet.
                cast("Any", gateway.app),
                loop="none",
                http=cast("Any", make_protocol(settings)),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=settings.behind_proxy,
                timeout_keep_alive=settings.keep_alive_s,
                backlog=_BACKLOG,
            )
        )
        if stop is not None:
            group.start_soon(_drain_when, stop, gateway, server, settings.drain_s)
        # Connections wait in the kernel's queue meanwhile, rather than being refused.
        with anyio.move_on_after(settings.first_table_s):
            await gateway.table.wait_until_ready()
        log.info("event=listening address=%s:%d", *listener.getsockname()[:2])
        task_status.started(port)
        try:
            await server.serve([listener])
        finally:
            server.cut_off()
            listener.close()
        log.info("event=stopped pieces=%d", gateway.pieces)
        group.cancel_scope.cancel()


async def _drain_when(stop: anyio.Event, gateway: Gateway, server: _Server, drain_s: float) -> None:
    await stop.wait()
    log.info("event=draining drain_s=%g", drain_s)
    gateway.close_doors()
    server.should_exit = True
    await anyio.sleep(drain_s)
    error = shutting_down()
    gateway.activator.fail_running(error.error_code, error.message)
    await anyio.sleep(_LAST_WORDS_S)
    server.force_exit = True


def _listen(settings: Settings) -> socket.socket:
    if settings.listen_fd is not None:
        inherited = socket.socket(fileno=settings.listen_fd)
        inherited.setblocking(False)
        return inherited
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With its protocol named: asyncio sets TCP_NODELAY on no other's connections.
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(settings, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _cannot_listen(settings, error) from error
    return listener


def _cannot_listen(settings: Settings, error: OSError) -> SettingsError:
    return SettingsError(
        f"the gateway cannot listen on {settings.host}:{settings.port}: {error}; stop what "
        "listens there, or choose another port"
    )
