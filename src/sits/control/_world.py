"""What control observes: hosts, templates, instances, demand. Changed by events, no I/O.

Invariants: only living things are kept (what is gone is removed at once); an instance's host
is always there; a failure is counted once, against what failed: a host's end against the host,
an instance's against its unit.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from sits.control._lifecycle import (
    HOST_TRANSITIONS,
    TRANSITIONS,
    Event,
    HostEvent,
    HostState,
    Lifecycle,
    State,
)
from sits.policy import Backoff, InstanceView, Phase, ScaleState, after_failure
from sits.wire import HostReady, Instance, InstanceReady, Load

UnitKey = tuple[str, str]  # (tenant, unit's name)


class TemplateState(StrEnum):
    """Where a tenant's template on a host is."""

    OPENING = "opening"
    READY = "ready"
    FAILED = "failed"


@dataclass
class TrackedHost:
    """A base host that was asked for.

    Attributes:
        told_s: when it was told to start, or first heard of.
    """

    name: str
    told_s: float = 0.0
    templates: dict[str, TemplateState] = field(default_factory=dict)
    life: Lifecycle[HostState, HostEvent] = field(
        default_factory=lambda: Lifecycle(HOST_TRANSITIONS, HostState.STARTING)
    )


@dataclass
class TrackedInstance:
    """An instance that was asked for.

    Attributes:
        told_s: when it was last told to start or to stop.
        drain_s: how long it then had for its running requests.
        stops: how often it was told to stop.
    """

    name: str
    tenant: str
    unit: str
    host: str
    value: Instance | None = None
    told_s: float = 0.0
    drain_s: float = 0.0
    stops: int = 0
    life: Lifecycle[State, Event] = field(
        default_factory=lambda: Lifecycle(TRANSITIONS, State.STARTING)
    )

    @property
    def view(self) -> InstanceView:
        """What the policy is shown of it."""
        capacity = self.value.capacity if self.value else 0
        return InstanceView(self.name, Phase(str(self.life.state)), capacity)

    def stop(self, drain_s: float, now_s: float) -> None:
        """Note that it is told to stop, for the first time or again."""
        if self.life.state is not State.DRAINING:
            self.life.advance(Event.STOP)
        self.told_s, self.drain_s = now_s, drain_s
        self.stops += 1


class World:
    """Everything that is observed, and memory of failures."""

    def __init__(self) -> None:
        self.node_connected = False
        self.hosts: dict[str, TrackedHost] = {}
        self.instances: dict[str, TrackedInstance] = {}  # oldest first
        self.scales: dict[UnitKey, ScaleState] = {}
        self.host_backoffs: dict[str, Backoff] = {}
        self.template_backoffs: dict[tuple[str, str], Backoff] = {}  # (host, tenant)
        self.left_out: frozenset[UnitKey] = frozenset()  # too large for gateways to be told of
        self._loads: dict[int, Load] = {}

    def demand(self, key: UnitKey) -> tuple[int, int]:
        """Return the requests of a unit that wait and run, summed over gateways."""
        loads = [unit for load in self._loads.values() for unit in load.units]
        own = [unit for unit in loads if (unit.tenant, unit.unit) == key]
        return sum(unit.waiting for unit in own), sum(unit.running for unit in own)

    def instances_of(self, key: UnitKey) -> list[TrackedInstance]:
        """Return a unit's instances, oldest first."""
        return [item for item in self.instances.values() if (item.tenant, item.unit) == key]

    def set_load(self, gateway: int, load: Load) -> None:
        """Take the newest demand at a gateway."""
        self._loads[gateway] = load

    def forget_gateway(self, gateway: int) -> None:
        """A gateway has left, and its demand with it."""
        self._loads.pop(gateway, None)

    def node_up(self) -> None:
        """The link to the node is there."""
        self.node_connected = True

    def node_lost(self) -> None:
        """The link to the node broke; orders that were on their way are forgotten."""
        self.node_connected = False
        for host in list(self.hosts.values()):
            if host.life.state in (HostState.STARTING, HostState.STOPPING):
                self._drop_host(host)

    def host_up(self, name: str, now_s: float) -> bool:
        """A host runs. Returns whether its link is to be opened now.

        One that was not asked for was by an earlier life of control: it is taken over, and
        stopped by the next plan if nothing needs it.
        """
        host = self.hosts.setdefault(name, TrackedHost(name, now_s))
        if host.life.state not in (HostState.STARTING, HostState.STOPPING):
            return False  # told again, or about to be stopped
        return host.life.advance(HostEvent.UP) is HostState.CONNECTING

    def host_down(self, name: str, message: str, now_s: float) -> None:
        """A host has ended, and everything on it; not asked to, it counts as a failure."""
        host = self.hosts.get(name)
        if host is None:
            return
        # A lost link has been counted already.
        if host.life.state not in (HostState.STOPPING, HostState.LOST):
            self._host_failed(name, message, now_s)
        host.life.advance(HostEvent.DOWN)
        self._drop_host(host)

    def host_ready(self, name: str, message: HostReady) -> None:
        """A host has loaded its model; what there is on it already is taken over."""
        host = self.hosts.get(name)
        if host is None or host.life.state is HostState.READY:
            return
        host.life.advance(HostEvent.LOADED)
        host.templates |= dict.fromkeys(message.templates, TemplateState.READY)
        for ready in message.instances:
            self.instance_ready(name, ready)

    def host_link_lost(self, name: str, message: str, now_s: float) -> None:
        """The link to a host broke: its instances cannot be told anything, so they are gone."""
        host = self.hosts.get(name)
        if host is None:
            return
        if host.life.state is not HostState.STOPPING:
            self._host_failed(name, message, now_s)
        host.life.advance(HostEvent.LINK_LOST)
        host.templates.clear()
        self._drop_instances(name)

    def template_ready(self, host: str, tenant: str) -> None:
        """A tenant's instances start warm from now on."""
        if host in self.hosts:
            self.hosts[host].templates[tenant] = TemplateState.READY

    def template_failed(self, host: str, tenant: str, message: str, now_s: float) -> None:
        """A tenant's template could not be made, or ended."""
        if host in self.hosts:
            self.hosts[host].templates[tenant] = TemplateState.FAILED
            former = self.template_backoffs.get((host, tenant), Backoff())
            self.template_backoffs[host, tenant] = after_failure(former, message, now_s)

    def instance_ready(self, host: str, message: InstanceReady) -> None:
        """An instance answers. One that was not asked for was by an earlier life of control."""
        if host not in self.hosts:
            return
        item = self.instances.setdefault(
            message.instance,
            TrackedInstance(message.instance, message.tenant, message.unit, host),
        )
        if item.life.state is not State.READY:
            item.value = message.value
            item.life.advance(Event.CAME_UP)

    def instance_gone(self, name: str, code: str, message: str, now_s: float) -> None:
        """An instance has ended; not asked to, it counts as its unit's failure."""
        item = self.instances.pop(name, None)
        if item is None:
            return
        if item.life.state is not State.DRAINING:
            key = (item.tenant, item.unit)
            scale = self.scales.get(key, ScaleState())
            backoff = after_failure(scale.backoff, f"{code}: {message}", now_s)
            self.scales[key] = replace(scale, backoff=backoff)
        item.life.advance(Event.ENDED)

    def forgive(self, key: UnitKey, host: str) -> None:
        """Forget failures: a person deployed the unit again, so it is tried at once."""
        self.scales.pop(key, None)
        self.host_backoffs.pop(host, None)
        self.template_backoffs.pop((host, key[0]), None)

    def _host_failed(self, name: str, message: str, now_s: float) -> None:
        former = self.host_backoffs.get(name, Backoff())
        self.host_backoffs[name] = after_failure(former, message, now_s)

    def _drop_host(self, host: TrackedHost) -> None:
        self._drop_instances(host.name)
        del self.hosts[host.name]

    def _drop_instances(self, host: str) -> None:
        for item in list(self.instances.values()):
            if item.host == host:
                item.life.advance(Event.ENDED)
                del self.instances[item.name]
