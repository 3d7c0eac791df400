"""Serves an ASGI app on a unix socket that only its owner may open."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any

import anyio
import anyio.abc
import uvicorn

from sits.wire import listen

_DRAIN_S = 1


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Say when connections are taken."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process's entry."""
        yield


async def serve_app(
    app: Any,
    path: str,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` at the unix socket `path` until cancelled; running requests then get a second.

    Mutates the file system: the socket's directory is made accessible to its owner alone, and
    a stale socket is replaced. `task_status` is started once connections are taken.

    Args:
        app: the ASGI application.
        path: the socket's path.
        task_status: anyio's.
    """
    directory = Path(path).parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        # The gateway, which passes the answers on, says these itself.
        date_header=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    server = _Server(config)
    async with anyio.create_task_group() as group:
        group.start_soon(_serve, server, listen(path))
        try:
            await server.listening.wait()
            task_status.started()
            await anyio.sleep_forever()
        finally:
            server.should_exit = True


async def _serve(server: _Server, sock: socket) -> None:
    # Shielded: uvicorn ends by its flag, in time that it bounds, and closes what it opened.
    with anyio.CancelScope(shield=True):
        await server.serve(sockets=[sock])
