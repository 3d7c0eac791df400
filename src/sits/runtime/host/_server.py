"""A host's socket: orders from control come in, events go out, and late comers are told all.

Invariant: a control that connects (again) is first sent `HostReady`, with every template and
instance that there is. So a restart of control loses nothing that runs.
"""

from typing import Protocol

from sits.runtime.host._reactor import Reactor
from sits.wire import (
    CloseTemplate,
    FrameSocket,
    FromHost,
    HostReady,
    InstanceGone,
    InstanceReady,
    OpenTemplate,
    StartInstance,
    StopInstance,
    TeachPrefix,
    TemplateClosed,
    TemplateFailed,
    TemplateReady,
    ToHost,
    accept_nowait,
    listen,
)

Link = FrameSocket[ToHost]


class Instances(Protocol):
    """What makes and ends instances; it tells of them through `HostServer.announce`."""

    def open_template(self, tenant: str) -> None:
        """Make a tenant's template, unless there is one."""
        ...

    def close_template(self, tenant: str) -> None:
        """End a tenant's template, unless it has instances."""
        ...

    def teach_prefix(self, order: TeachPrefix) -> None:
        """Have a unit's constant prompt in its tenant's template."""
        ...

    def start_instance(self, order: StartInstance) -> None:
        """Start an instance, unless it is there."""
        ...

    def stop_instance(self, order: StopInstance) -> None:
        """Drain and end an instance. One that is not there is announced as gone."""
        ...

    def wait_s(self) -> float | None:
        """Return how long the loop may wait before `step`; None: until a message comes."""
        ...

    def step(self) -> None:
        """Do what is due between messages."""
        ...

    def close(self) -> None:
        """End everything, now."""
        ...


class HostServer:
    """Listens for control on `endpoint`, within a reactor that its owner turns."""

    def __init__(self, reactor: Reactor, endpoint: str) -> None:
        self._reactor = reactor
        self._links: set[Link] = set()
        self._templates: dict[str, None] = {}
        self._instances: dict[str, InstanceReady] = {}
        self._listener = listen(endpoint)
        self._maker: Instances | None = None
        reactor.watch(self._listener, self._accept)

    def serve(self, maker: Instances) -> None:
        """Take orders for `maker` from now on."""
        self._maker = maker

    def announce(self, event: FromHost) -> None:
        """Tell every control that is connected, and remember for those that come later."""
        if isinstance(event, TemplateReady):
            self._templates[event.tenant] = None
        elif isinstance(event, TemplateFailed | TemplateClosed):
            self._templates.pop(event.tenant, None)
        elif isinstance(event, InstanceReady):
            self._instances[event.instance] = event
        elif isinstance(event, InstanceGone):
            self._instances.pop(event.instance, None)
        for link in list(self._links):
            self._send(link, event)

    def _accept(self) -> None:
        sock = accept_nowait(self._listener)
        if sock is None:
            return
        link: Link = FrameSocket(sock, ToHost)
        self._links.add(link)
        self._reactor.watch(link, lambda: self._receive(link))
        self._send(link, HostReady(tuple(self._templates), tuple(self._instances.values())))

    def _receive(self, link: Link) -> None:
        link.flush_nowait()
        for order in link.receive_nowait():
            self._obey(order)
        self._settle(link)

    def _obey(self, order: ToHost) -> None:
        if self._maker is None:
            raise AssertionError("serve() comes before the first turn of the reactor")
        if isinstance(order, OpenTemplate):
            self._maker.open_template(order.tenant)
        elif isinstance(order, CloseTemplate):
            self._maker.close_template(order.tenant)
        elif isinstance(order, TeachPrefix):
            self._maker.teach_prefix(order)
        elif isinstance(order, StartInstance):
            self._maker.start_instance(order)
        else:
            # A control that comes now is not told of it: it takes nothing new any more.
            self._instances.pop(order.instance, None)
            self._maker.stop_instance(order)

    def _send(self, link: Link, event: FromHost) -> None:
        link.send_nowait(event)
        self._settle(link)

    def _settle(self, link: Link) -> None:
        if link.closed:
            self._links.discard(link)
            self._reactor.forget(link)
        else:
            self._reactor.want_write(link, link.wants_write)
