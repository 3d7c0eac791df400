"""What control observes: hosts, templates, instances, demand. Changed by events, no I/O.

Invariants: only living things are kept (what is gone is removed at once); an instance's host
is always there; a failure is counted once, against what failed: a host's end against the host,
an instance's against its unit.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from sits.control._lifecycle import Event, HostEvent, HostState, State
from sits.control._memory import MachineMemory
from sits.control._tracked import Note, NoteKind, TemplateState, TrackedHost, TrackedInstance
from sits.control._wanted import UnitKey
from sits.policy import Backoff, ScaleState, TemplateKey, TemplateUse, after_failure
from sits.wire import HostReady, InstanceReady, Load, MemoryUse, Tier


class World:
    """Everything that is observed, and memory of failures."""

    def __init__(self) -> None:
        self.node_connected = False
        self.hosts: dict[str, TrackedHost] = {}
        self.instances: dict[str, TrackedInstance] = {}  # oldest first
        self.scales: dict[UnitKey, ScaleState] = {}
        self.host_backoffs: dict[str, Backoff] = {}
        self.template_backoffs: dict[TemplateKey, Backoff] = {}
        self.canary_backoffs: dict[UnitKey, Backoff] = {}
        self.left_out: frozenset[UnitKey] = frozenset()  # too large for gateways to be told of
        self.host_failures = 0
        self.template_uses: dict[TemplateKey, TemplateUse] = {}
        self.template_bytes: dict[TemplateKey, int] = {}  # as last measured, also of former lives
        self.host_bytes: dict[str, int] = {}
        self.machine: MachineMemory | None = None
        self.cold: frozenset[UnitKey] = frozenset()  # units whose requests waited for a model
        self.starts: dict[UnitKey, Counter[Tier]] = {}
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
        if host.fell_loading or host.life.state not in (HostState.STOPPING, HostState.LOST):
            self._host_failed(name, message, now_s)
        host.life.advance(HostEvent.DOWN)
        self._drop_host(host)

    def host_ready(self, name: str, message: HostReady) -> None:
        """A host has loaded its model; what there is on it already is taken over."""
        host = self.hosts.get(name)
        if host is None or host.life.state is HostState.READY:
            return
        host.life.advance(HostEvent.LOADED)
        for tenant in message.templates:
            host.set_template(tenant, TemplateState.READY)
        for ready in message.instances:
            self.instance_ready(name, ready)

    def host_link_lost(self, name: str, message: str, now_s: float) -> None:
        """The link to a host broke: its instances cannot be told anything, so they are gone."""
        host = self.hosts.get(name)
        if host is None:
            return
        if host.life.state in (HostState.STARTING, HostState.CONNECTING):
            host.fell_loading = True  # why will be said when it is down
        elif host.life.state is not HostState.STOPPING:
            self._host_failed(name, message, now_s)
        host.life.advance(HostEvent.LINK_LOST)
        for tenant in list(host.templates):
            host.set_template(tenant, None)
        self._drop_instances(name)

    def template_ready(self, host: str, tenant: str) -> None:
        """A tenant's instances start warm from now on."""
        if host in self.hosts:
            self.hosts[host].set_template(tenant, TemplateState.READY)

    def template_failed(self, host: str, tenant: str, message: str, now_s: float) -> None:
        """A tenant's template could not be made, or ended."""
        if host in self.hosts:
            self.hosts[host].set_template(tenant, TemplateState.FAILED)
            former = self.template_backoffs.get((host, tenant), Backoff())
            self.template_backoffs[host, tenant] = after_failure(former, message, now_s)

    def template_closed(self, host: str, tenant: str) -> None:
        """A tenant's template has ended, as it was asked to: the next start is cool."""
        if host in self.hosts:
            self.hosts[host].set_template(tenant, None)

    def prefix_taught(self, host: str, tenant: str) -> None:
        """A tenant's template has done with something that it was to be taught."""
        if host in self.hosts and (left := self.hosts[host].learning.get(tenant, 0)):
            self.hosts[host].learning[tenant] = left - 1

    def memory_used(self, host: str, use: MemoryUse) -> None:
        """What a host and its templates take, as it measured it."""
        if host in self.hosts:
            self.host_bytes[host] = use.host
            for tenant, size_bytes in use.templates.items():
                self.template_bytes[host, tenant] = size_bytes

    def instance_ready(self, host: str, message: InstanceReady) -> None:
        """An instance answers. One that was not asked for was by an earlier life of control."""
        if host not in self.hosts:
            return
        item = self.instances.get(message.instance)
        is_start = item is not None
        if item is None:
            item = TrackedInstance(message.instance, message.tenant, message.unit, host)
            self.add_instance(item)
        if item.life.state is not State.READY:
            tier = Tier.COLD if item.is_cold else message.value.tier
            item.value = msgspec.structs.replace(message.value, tier=tier)
            if item.life.advance(Event.CAME_UP) is State.READY:
                self.note(item.key, "InstanceReady", f"{item.name} serves ({tier})")
                if is_start:
                    self.starts.setdefault(item.key, Counter())[tier] += 1

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
