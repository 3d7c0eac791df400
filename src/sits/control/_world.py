"""What control observes: hosts, templates, instances, demand. Changed by events, no I/O.

Invariants: only living things are kept (what is gone is removed at once); an instance's host
is always there; a failure is counted once, against what failed: a host's end against the host,
an instance's against its unit.
"""

from collections.abc import Iterable
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
from sits.control._names import variant_of
from sits.control._wanted import Release, UnitKey
from sits.policy import Backoff, InstanceView, Phase, ScaleState, after_failure
from sits.wire import HostReady, Instance, InstanceReady, Load


class NoteKind(StrEnum):
    """Whether somebody should look."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True)
class Note:
    """Something that happened to a unit, for people.

    Attributes:
        reason: one word for scripts.
    """

    key: UnitKey
    reason: str
    message: str
    kind: NoteKind = NoteKind.NORMAL


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
        is_canary: it was started to see whether a revision comes up that takes no traffic yet.
    """

    name: str
    tenant: str
    unit: str
    host: str
    value: Instance | None = None
    told_s: float = 0.0
    drain_s: float = 0.0
    stops: int = 0
    is_canary: bool = False
    life: Lifecycle[State, Event] = field(
        default_factory=lambda: Lifecycle(TRANSITIONS, State.STARTING)
    )

    @property
    def key(self) -> UnitKey:
        """Whose it is."""
        return self.tenant, self.unit

    @property
    def variant(self) -> str:
        """What it was started with, where that differs on one host."""
        return variant_of(self.name)

    def serves(self, release: Release) -> bool:
        """Return whether it is of this revision, or of one that runs as it does."""
        return (self.host, self.variant) == (release.host, release.variant)

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
        self.canary_backoffs: dict[UnitKey, Backoff] = {}
        self.left_out: frozenset[UnitKey] = frozenset()  # too large for gateways to be told of
        self.host_failures = 0
        self.notes: list[Note] = []  # since they were last taken
        self._by_unit: dict[UnitKey, dict[str, TrackedInstance]] = {}
        self._loads: dict[int, Load] = {}
        self._demand: dict[UnitKey, tuple[int, int]] = {}

    def demand(self, key: UnitKey) -> tuple[int, int]:
        """Return the requests of a unit that wait and run, summed over gateways."""
        return self._demand.get(key, (0, 0))

    def instances_of(self, key: UnitKey) -> list[TrackedInstance]:
        """Return a unit's instances, oldest first."""
        return list(self._by_unit.get(key, {}).values())

    def has_instances(self, key: UnitKey) -> bool:
        """Return whether a unit has any instance."""
        return key in self._by_unit

    def add_instance(self, item: TrackedInstance) -> None:
        """Take in an instance that is told to start, or that was found."""
        self.instances[item.name] = item
        self._by_unit.setdefault(item.key, {})[item.name] = item

    def note(
        self, key: UnitKey, reason: str, message: str, kind: NoteKind = NoteKind.NORMAL
    ) -> None:
        """Note for people what happened to a unit."""
        self.notes.append(Note(key, reason, message, kind))

    def set_load(self, gateway: int, load: Load) -> None:
        """Take the newest demand at a gateway."""
        self._loads[gateway] = load
        self._count_demand()

    def forget_gateway(self, gateway: int) -> None:
        """A gateway has left, and its demand with it."""
        self._loads.pop(gateway, None)
        self._count_demand()

    def _count_demand(self) -> None:
        self._demand = {}
        for load in self._loads.values():
            for unit in load.units:
                waiting, running = self.demand((unit.tenant, unit.unit))
                total = waiting + unit.waiting, running + unit.running
                self._demand[unit.tenant, unit.unit] = total

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
        item = self.instances.get(message.instance)
        if item is None:
            item = TrackedInstance(message.instance, message.tenant, message.unit, host)
            self.add_instance(item)
        if item.life.state is not State.READY:
            item.value = message.value
            if item.life.advance(Event.CAME_UP) is State.READY:
                self.note(item.key, "InstanceReady", f"{item.name} serves ({message.value.tier})")

    def instance_gone(self, name: str, code: str, message: str, now_s: float) -> None:
        """An instance has ended; not asked to, it counts as its unit's failure."""
        item = self.instances.get(name)
        if item is None:
            return
        if item.life.state is State.DRAINING:
            self.note(item.key, "InstanceStopped", f"{name} has ended")
        else:
            self._instance_failed(item, f"{code}: {message}", now_s)
        self._drop_instance(item)

    def _instance_failed(self, item: TrackedInstance, reason: str, now_s: float) -> None:
        self.note(item.key, "InstanceFailed", f"{item.name}: {reason}", NoteKind.WARNING)
        if item.is_canary:
            former = self.canary_backoffs.get(item.key, Backoff())
            self.canary_backoffs[item.key] = after_failure(former, reason, now_s)
            return
        scale = self.scales.get(item.key, ScaleState())
        backoff = after_failure(scale.backoff, reason, now_s)
        self.scales[item.key] = replace(scale, backoff=backoff)

    def promoted(self, key: UnitKey) -> None:
        """A unit's newest revision takes traffic: its canaries are instances as all others."""
        for item in self.instances_of(key):
            item.is_canary = False

    def reverted(self, key: UnitKey) -> None:
        """A unit's former revision takes traffic again: the failures were another's."""
        self.scales.pop(key, None)

    def is_up(self, host: str | None) -> bool:
        """Return whether a host has loaded its model."""
        tracked = self.hosts.get(host or "")
        return tracked is not None and tracked.life.state is HostState.READY

    def forgive(self, key: UnitKey, hosts: Iterable[str]) -> None:
        """Forget failures: a person deployed the unit again, so it is tried at once."""
        self.scales.pop(key, None)
        self.canary_backoffs.pop(key, None)
        for host in hosts:
            self.host_backoffs.pop(host, None)
            self.template_backoffs.pop((host, key[0]), None)

    def _host_failed(self, name: str, message: str, now_s: float) -> None:
        self.host_failures += 1
        former = self.host_backoffs.get(name, Backoff())
        self.host_backoffs[name] = after_failure(former, message, now_s)
        for key in {item.key for item in self.instances.values() if item.host == name}:
            self.note(key, "HostFailed", message, NoteKind.WARNING)

    def _drop_host(self, host: TrackedHost) -> None:
        self._drop_instances(host.name)
        del self.hosts[host.name]

    def _drop_instances(self, host: str) -> None:
        for item in list(self.instances.values()):
            if item.host == host:
                self._drop_instance(item)

    def _drop_instance(self, item: TrackedInstance) -> None:
        item.life.advance(Event.ENDED)
        del self.instances[item.name]
        own = self._by_unit[item.key]
        del own[item.name]
        if not own:
            del self._by_unit[item.key]
