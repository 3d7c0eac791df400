"""The remote host's process: settings, TLS, one event loop."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2

from sits._settings import SettingsError
from sits.observe import run_service
from sits.runtime.remote._host import HostPlan, RemoteHost
from sits.runtime.remote._http import Patience
from sits.trust import ENVIRONMENT_PREFIX

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteSettings:
    """Settings of one remote host.

    Attributes:
        tenant: whose endpoints it serves.
        endpoint: the unix socket on which it listens for control.
        run_dir: a directory for instances' sockets, open to this user alone.
        secrets_dir: where the tenants' secrets are.
        parent_pid: the process that started it; it ends with that.
        capacity: requests that one instance runs at once. Each is a connection that mostly
            waits; an endpoint's own limits are met before this machine's.
        connect_s: seconds to a connection with an endpoint.
        first_byte_s: seconds that an endpoint may be silent before an answer has begun; then
            the next one is tried.
        idle_s: seconds that it may be silent in the middle of an answer.
    """

    tenant: str
    endpoint: str
    run_dir: str
    secrets_dir: str
    parent_pid: int
    capacity: int = 64
    connect_s: float = 5.0
    first_byte_s: float = 30.0
    idle_s: float = 60.0

    def __post_init__(self) -> None:
        """Check what a type cannot say."""
        if not 1 <= self.capacity <= 1024:
            raise SettingsError(f"capacity is {self.capacity}; expected 1 to 1024")
        for name in ("connect_s", "first_byte_s", "idle_s"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; expected more than 0")


def run(arguments: Sequence[str]) -> int:
    """Run a remote host until it is ended from outside; return its exit status.

    Args:
        arguments: one, `RemoteSettings` as JSON.
    """
    return run_service("remote", arguments, RemoteSettings, _run)


def _run(settings: RemoteSettings) -> None:
    # They log a line for each request, with its address, and at a finer level its headers.
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    os.makedirs(settings.run_dir, mode=0o700, exist_ok=True)
    anyio.run(_serve, settings, backend_options={"use_uvloop": True})


async def _serve(settings: RemoteSettings) -> None:
    plan = HostPlan(
        tenant=settings.tenant,
        run_dir=settings.run_dir,
        secrets_dir=Path(settings.secrets_dir),
        environment={k: v for k, v in os.environ.items() if k.startswith(ENVIRONMENT_PREFIX)},
        capacity=settings.capacity,
        patience=Patience(settings.connect_s, settings.first_byte_s, settings.idle_s),
    )
    async with anyio.create_task_group() as tasks:
        host = RemoteHost(plan, tasks, httpx2.create_ssl_context())
        _log.info("event=serving tenant=%s", settings.tenant)
        await host.listen(settings.endpoint)
