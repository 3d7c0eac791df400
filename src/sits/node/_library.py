"""The library host, held up: model hosts are forked from it, which is quicker than to exec them.

Invariants: it is started again when it ends; its hosts have ended when it has, and are told so
once; whoever asks for a host while it is away is told that, and starts one by exec.
"""

import logging
import os
import socket
from pathlib import Path

import anyio
import anyio.abc

from sits.node._plan import HostPlan
from sits.node._process import ChildProcess, with_last_line
from sits.node._supervisor import Supervisor
from sits.wire import Channel, FromNode, HostDown, StartHost, StopHost, WireError

_log = logging.getLogger(__name__)
_SEND_S = 5.0
# Until a host is forked: also the library is imported in this time, on a machine that is busy.
_BEGIN_S = 30.0
_KILL_S = 1.0


class ForkedHost:
    """A host that was forked, as `ChildProcess` is one that was started by exec."""

    def __init__(self, name: str, log_path: Path, library: "Library") -> None:
        self.name = name
        self.begun = anyio.Event()
        self._log_path = log_path
        self._library = library
        self._ended = anyio.Event()
        self._how = ""

    async def wait(self) -> str:
        """Wait for its end and return how it ended, with the last line that it wrote."""
        await self._ended.wait()
        return self._how

    async def end(self, grace_s: float) -> None:
        """Ask it to end, wait, and have it killed after `grace_s`. Not cancelled half-way."""
        with anyio.CancelScope(shield=True):
            for wait_s in (grace_s, _KILL_S):
                await self._library.ask_to_stop(self)
                with anyio.move_on_after(wait_s):
                    await self._ended.wait()
                    return
                _log.warning("%s did not end within %.1f s", self.name, wait_s)
            self._library.give_up_nowait()
            await self._ended.wait()

    def kill_nowait(self) -> None:
        """Have it killed, with all others of its library host."""
        self._library.give_up_nowait()

    def note_end(self, how: str, *, spoke: bool = True) -> None:
        """Note how it ended; `spoke`: its last line may say why."""
        self._how = with_last_line(how, self._log_path) if spoke else how
        self.begun.set()
        self._ended.set()


class Library:
    """Holds one library host up, and asks it for hosts.

    Args:
        plan: what all hosts have in common.
        tasks: where it is watched; cancelled, everything is killed.
    """

    def __init__(self, plan: HostPlan, tasks: anyio.abc.TaskGroup) -> None:
        self._plan = plan
        self._tasks = tasks
        self._supervisor = Supervisor("library", self._start, lambda name, how: None)
        self._process: ChildProcess | None = None
        self._channel: Channel[FromNode] | None = None
        self._hosts: dict[str, ForkedHost] = {}

    async def run(self) -> None:
        """Start it, and again whenever it ends."""
        await self._supervisor.run()

    async def stop(self, grace_s: float) -> None:
        """End it for good, and what was forked from it."""
        await self._supervisor.stop(grace_s)

    def kill_nowait(self) -> None:
        """Have it killed for good, and what was forked from it."""
        self._supervisor.kill_nowait()

    def give_up_nowait(self) -> None:
        """Have it killed, since it does not do what it is asked for: another is started."""
        if self._process is not None:
            self._process.kill_nowait()

    async def start_host(self, order: StartHost) -> ForkedHost | None:
        """Have a host of a model forked; None: there is no library host now."""
        channel, hosts = self._channel, self._hosts
        if channel is None or order.host in hosts:
            return None
        host = ForkedHost(order.host, self._plan.log_dir / f"{order.host}.log", self)
        hosts[order.host] = host
        if not await _send(channel, order):
            hosts.pop(order.host, None)
            return None
        self._tasks.start_soon(self._expect, host)
        return host

    async def ask_to_stop(self, host: ForkedHost) -> None:
        """Ask a host to end; asked again, it is killed."""
        if self._channel is not None and self._hosts.get(host.name) is host:
            await _send(self._channel, StopHost(host.name))

    async def _expect(self, host: ForkedHost) -> None:
        with anyio.move_on_after(_BEGIN_S):
            await host.begun.wait()
            return
        _log.error("the library host did not fork %s within %g s", host.name, _BEGIN_S)
        self.give_up_nowait()

    async def _start(self) -> ChildProcess:
        ours, theirs = socket.socketpair()
        try:
            process = await ChildProcess.start(
                "library",
                "sits.runtime.host._library",
                {
                    "parent_pid": os.getpid(),
                    "link_fd": theirs.fileno(),
                    "sockets_dir": self._plan.run_dir,
                    "log_dir": str(self._plan.log_dir),
                    "engine": self._plan.engine,
                    "host": self._plan.model_settings,
                },
                self._plan.log_dir,
                [theirs.fileno()],
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        stream = await anyio.abc.UNIXSocketStream.from_socket(ours)
        self._process, self._channel, self._hosts = process, Channel(stream, FromNode), {}
        self._tasks.start_soon(self._watch, process, self._channel, self._hosts)
        return process

    async def _watch(
        self, process: ChildProcess, channel: Channel[FromNode], hosts: dict[str, ForkedHost]
    ) -> None:
        """Take in what one library host tells, until it ends; then all of its hosts have."""
        try:
            async with channel:
                await _read(channel, hosts)
            with anyio.move_on_after(_KILL_S):
                await process.wait()
        finally:
            if self._channel is channel:
                self._channel = None
            # One that has closed its link is of no use any more.
            await process.end(0.0)
            with anyio.CancelScope(shield=True):
                how = await process.wait()
            for host in hosts.values():
                host.note_end(f"the library host, of which it was, ended ({how})", spoke=False)


async def _read(channel: Channel[FromNode], hosts: dict[str, ForkedHost]) -> None:
    try:
        async for event in channel:
            host = hosts.get(event.host)
            if host is not None and isinstance(event, HostDown):
                del hosts[event.host]
                host.note_end(event.message)
            elif host is not None:
                host.begun.set()
    except WireError as error:
        _log.error("the library host's link broke: %s", error)


async def _send(channel: Channel[FromNode], order: StartHost | StopHost) -> bool:
    try:
        with anyio.fail_after(_SEND_S):
            await channel.send(order)
    except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return False
    return True
