"""The wire to the node and to the hosts: sends orders, turns messages into events.

Invariants: events change the world and wake the loop, nothing else; orders to a link that is
broken are dropped, since its end is an event of its own and the next plan starts from that;
one task for each host reads its link, and is cancelled when the node says that it is down.
"""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import msgspec

from sits.control._actions import Order
from sits.control._clock import Clock
from sits.control._world import World
from sits.wire import (
    Channel,
    FromHost,
    FromNode,
    HostDown,
    HostReady,
    HostUp,
    InstanceGone,
    InstanceReady,
    MemoryUse,
    PrefixTaught,
    StartInstance,
    TeachPrefix,
    TemplateClosed,
    TemplateFailed,
    TemplateReady,
    UnitPrompt,
    WireError,
    connect,
    put_prompt_aside,
)

_SEND_S = 5.0
_CONNECT_S = 5.0
_FIRST_RETRY_S = 0.002
_MAX_RETRY_S = 0.5

log = logging.getLogger(__name__)


class Links:
    """Control's connections to the node and to the hosts.

    Args:
        world: what events change.
        clock: tells events' times.
        wake: called after each event.
        prompts_dir: where prompts wait for their template.
    """

    def __init__(
        self, world: World, clock: Clock, wake: Callable[[], None], prompts_dir: str
    ) -> None:
        self._world = world
        self._clock = clock
        self._wake = wake
        self._prompts_dir = prompts_dir
        self._node: Channel[FromNode] | None = None
        self._hosts: dict[str, Channel[FromHost]] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}

    async def send(self, order: Order) -> None:
        """Send one order, within five seconds; a link that is broken drops it."""
        log.info("order %s host=%s", _words(order.message), order.host or "-")
        channel = self._node if order.host is None else self._hosts.get(order.host)
        message = order.message
        if isinstance(message, StartInstance | TeachPrefix) and channel is not None:
            prompt = put_prompt_aside(message.prompt, self._prompts_dir)
            message = msgspec.structs.replace(message, prompt=prompt)
        await self._send(channel, message)

    async def run_node(self, path: str) -> None:
        """Keep the link to the node, until cancelled."""
        async with anyio.create_task_group() as hosts:
            while True:
                async with await _connect(path, FromNode) as channel:
                    self._node = channel
                    self._world.node_up()
                    self._wake()
                    try:
                        async for message in channel:
                            self._on_node(message, hosts)
                            self._wake()
                    except WireError as error:
                        log.warning("link to the node broke error=%s", error)
                    self._node = None
                    self._world.node_lost()
                    self._wake()
                log.warning("link to the node lost; connecting again path=%s", path)
                await anyio.sleep(_FIRST_RETRY_S)

    def _on_node(self, message: FromNode, hosts: anyio.abc.TaskGroup) -> None:
        match message:
            case HostUp(host=name, endpoint=endpoint):
                if self._world.host_up(name, self._clock.monotonic_s()):
                    # Before the task runs: the host may be down by the next message.
                    self._scopes[name] = anyio.CancelScope()
                    hosts.start_soon(self._run_host, name, endpoint, self._scopes[name])
            case HostDown(host=name, message=text):
                log.info("host down host=%s message=%r", name, text)
                if scope := self._scopes.get(name):
                    scope.cancel()
                self._world.host_down(name, text, self._clock.monotonic_s())

    async def _run_host(self, name: str, endpoint: str, scope: anyio.CancelScope) -> None:
        problem = "the host closed its link"
        with scope:
            try:
                async with await _connect(endpoint, FromHost) as channel:
                    self._hosts[name] = channel
                    try:
                        async for message in channel:
                            self._on_host(name, message)
                            self._wake()
                    except WireError as error:
                        problem = str(error)
                if scope.cancel_called:
                    return  # it is down, and another of its name may have been asked for
                log.warning("link to a host lost host=%s problem=%r", name, problem)
                self._world.host_link_lost(name, problem, self._clock.monotonic_s())
                self._wake()
            finally:
                # A host of the same name may have come since this task was cancelled.
                if self._scopes.get(name) is scope:
                    del self._scopes[name]
                    self._hosts.pop(name, None)

    def _on_host(self, name: str, message: FromHost) -> None:
        now_s = self._clock.monotonic_s()
        level = logging.DEBUG if isinstance(message, MemoryUse) else logging.INFO
        log.log(level, "event %s host=%s", _words(message), name)
        match message:
            case HostReady():
                self._world.host_ready(name, message)
            case TemplateReady(tenant=tenant):
                self._world.template_ready(name, tenant)
            case TemplateFailed(tenant=tenant, message=text):
                self._world.template_failed(name, tenant, text, now_s)
            case TemplateClosed(tenant=tenant):
                self._world.template_closed(name, tenant)
            case PrefixTaught(tenant=tenant):
                self._world.prefix_taught(name, tenant)
            case MemoryUse():
                self._world.memory_used(name, message)
            case InstanceReady():
                self._world.instance_ready(name, message)
            case InstanceGone(instance=instance, code=code, message=text):
                self._world.instance_gone(instance, code, text, now_s)

    async def _send(
        self, channel: Channel[FromNode] | Channel[FromHost] | None, message: msgspec.Struct
    ) -> None:
        if channel is None:
            return
        try:
            with anyio.fail_after(_SEND_S):
                await channel.send(message)
        except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await channel.aclose()


async def _connect(path: str, types: Any) -> Channel[Any]:
    """Connect as soon as something listens; until then try again, for ever."""
    delay_s = _FIRST_RETRY_S
    while True:
        try:
            with anyio.fail_after(_CONNECT_S):
                return await connect(path, types)
        except OSError:  # TimeoutError is one: a peer that takes no connections, but listens
            await anyio.sleep(delay_s)
            delay_s = min(delay_s * 1.5, _MAX_RETRY_S)


def _words(message: msgspec.Struct) -> str:
    """Return a message for the log: without prompts, which are their tenant's alone."""
    fields = msgspec.structs.asdict(message)
    shown = (
        f"{name}={value!r}" for name, value in fields.items() if not isinstance(value, UnitPrompt)
    )
    return " ".join([type(message).__name__, *shown])
