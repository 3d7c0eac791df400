"""Hosts, at control's word: started once for each name, told of, ended.

A host is of one model file, or of one tenant's endpoints elsewhere. A model's host is forked from
the library host, where there is one (`_library`).

A host that ends is not started again here: control is told, and asks again when it still wants
it. A control that connects is told of every host that runs, so that its restart loses none.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import anyio
import anyio.abc

from sits.node._library import Library
from sits.node._plan import HostPlan
from sits.node._process import ChildProcess
from sits.trust import ENVIRONMENT_PREFIX, LOCAL_TENANT
from sits.wire import (
    Channel,
    FromNode,
    HostDown,
    HostKind,
    HostUp,
    Shutdown,
    StartHost,
    StopHost,
    ToNode,
    WireError,
)

_log = logging.getLogger(__name__)
_STOP_S = 1.0
_SEND_S = 5.0


class HostProcess(Protocol):
    """A host's process, however it was started."""

    async def wait(self) -> str:
        """Wait for its end and return how it ended."""
        ...

    async def end(self, grace_s: float) -> None:
        """Ask it to end, and have it killed after `grace_s`."""
        ...

    def kill_nowait(self) -> None:
        """Have it killed."""
        ...


class Hosts:
    """The hosts of a node.

    Args:
        tasks: where the watching of each host runs.
        shut_down: called when somebody asks for the end of the platform.
        library: what model hosts are forked from; None, or while it is away: they are started
            by exec, as remote hosts always are.
    """

    def __init__(
        self,
        plan: HostPlan,
        tasks: anyio.abc.TaskGroup,
        shut_down: Callable[[], None],
        library: Library | None = None,
    ) -> None:
        self._plan = plan
        self._tasks = tasks
        self._shut_down = shut_down
        self._library = library
        self._processes: dict[str, HostProcess] = {}
        self._listeners: set[Channel[ToNode]] = set()

    async def serve(self, channel: Channel[ToNode]) -> None:
        """Take orders from one peer (control, or a CLI that ends the platform)."""
        self._listeners.add(channel)
        try:
            for name in list(self._processes):
                await _send(channel, HostUp(name, self._plan.endpoint(name)))
            async for order in channel:
                if isinstance(order, StartHost):
                    await self._begin(order)
                elif isinstance(order, StopHost):
                    self._tasks.start_soon(self._end, order.host)
                elif isinstance(order, Shutdown):
                    self._shut_down()
        except WireError as error:  # a foreign peer, or one of another version
            _log.warning("a peer of the node's socket is dropped: %s", error)
        finally:
            self._listeners.discard(channel)

    async def stop(self) -> None:
        """End all hosts, and what was forked from them."""
        async with anyio.create_task_group() as tasks:
            for name in list(self._processes):
                tasks.start_soon(self._end, name)
        if self._library is not None:
            await self._library.stop(_STOP_S)

    def kill_nowait(self) -> None:
        """Have all hosts killed."""
        for process in self._processes.values():
            process.kill_nowait()
        if self._library is not None:
            self._library.kill_nowait()

    async def _begin(self, order: StartHost) -> None:
        if order.host in self._processes:
            await self._tell(HostUp(order.host, self._plan.endpoint(order.host)))
            return
        try:
            process = await self._fork(order) or await self._exec(order)
        except OSError as error:
            await self._tell(HostDown(order.host, f"no process for it: {error}"))
            return
        self._processes[order.host] = process
        self._tasks.start_soon(self._watch, order.host, process)
        await self._tell(HostUp(order.host, self._plan.endpoint(order.host)))

    async def _fork(self, order: StartHost) -> HostProcess | None:
        if self._library is None or order.kind is HostKind.REMOTE:
            return None
        return await self._library.start_host(order)

    async def _exec(self, order: StartHost) -> HostProcess:
        remote = order.kind is HostKind.REMOTE
        return await ChildProcess.start(
            order.host,
            "sits.runtime.remote" if remote else "sits.runtime.host",
            self._remote_settings(order) if remote else self._model_settings(order),
            self._plan.log_dir,
            environment=_secrets(os.environ, order.tenant) if remote else None,
        )

    def _model_settings(self, order: StartHost) -> dict[str, Any]:
        return {
            **self._plan.model_settings,
            "model_path": order.model_path,
            "endpoint": self._plan.endpoint(order.host),
            "parent_pid": os.getpid(),
            "engine": self._plan.engine,
        }

    def _remote_settings(self, order: StartHost) -> dict[str, Any]:
        return {
            "tenant": order.tenant,
            "endpoint": self._plan.endpoint(order.host),
            "run_dir": self._plan.instances_dir,
            "secrets_dir": str(self._plan.secrets_dir),
            "parent_pid": os.getpid(),
        }

    async def _watch(self, name: str, process: HostProcess) -> None:
        try:
            how = await process.wait()
        except anyio.get_cancelled_exc_class():
            await process.end(0.0)
            raise
        _log.info("%s ended: %s", name, how)
        with contextlib.suppress(OSError):  # one that was killed could not; nobody listens there
            os.unlink(self._plan.endpoint(name))
        del self._processes[name]
        await self._tell(HostDown(name, how))

    async def _end(self, name: str) -> None:
        process = self._processes.get(name)
        if process is not None:
            await process.end(_STOP_S)

    async def _tell(self, event: FromNode) -> None:
        for channel in list(self._listeners):
            await _send(channel, event)


def _secrets(inherited: Mapping[str, str], tenant: str) -> dict[str, str]:
    """Return the variables that hold secrets: only the local tenant's remote host is given them.

    They belong to who runs the platform; another tenant could send them to an address of its own.
    """
    if tenant != LOCAL_TENANT:
        return {}
    return {name: text for name, text in inherited.items() if name.startswith(ENVIRONMENT_PREFIX)}


async def _send(channel: Channel[ToNode], event: FromNode) -> None:
    """Tell one peer. What a peer sent before it left is still to be read, so that is no error."""
    try:
        with anyio.fail_after(_SEND_S):
            await channel.send(event)
    except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
        _log.info("a peer of the node's socket takes no message: %r", error)
