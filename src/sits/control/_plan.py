"""What is to be done, from what is wanted and what is: pure, and from scratch every time.

An instance belongs to (tenant, unit, model): a revision that changes only prompt or scale
keeps its instances, since a request carries its prompt. A revision with another model rolls
over: the old model's instances serve until one of the new can, within `max_instances`; only
where that leaves no room does an old one drain first, and then the new template is warm.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sits.control._lifecycle import HostState, State
from sits.control._names import host_name
from sits.control._overdue import (
    GRACE_S,
    due_s,
    hung_instance,
    is_load_overdue,
    is_overdue,
    load_due_s,
)
from sits.control._world import TemplateState, TrackedHost, TrackedInstance, UnitKey, World
from sits.models import ModelFile
from sits.policy import (
    Backoff,
    Observed,
    ScaleSpec,
    ScaleState,
    Start,
    Stop,
    after_failure,
    after_health,
    backoff_due_s,
    decide_instances,
    may_try,
)
from sits.spec import Scale, Unit
from sits.wire import OpenTemplate, StartHost, StartInstance, StopHost, StopInstance


@dataclass(frozen=True)
class Wanted:
    """A unit as the store has it, with its model found.

    Attributes:
        unit: what was deployed; None when this version cannot read it.
        model: its file; None when there is none, and `problem` then says why.
        retry_at_s: when its model is looked for again; None: it is there, or not looked for.
        deleted: it is to go as soon as its instances have.
    """

    tenant: str
    name: str
    unit: Unit | None
    revision: str
    created_s: float
    updated_s: float
    model: ModelFile | None
    problem: str | None = None
    retry_at_s: float | None = None
    deleted: bool = False

    @property
    def key(self) -> UnitKey:
        """How the world knows it."""
        return self.tenant, self.name

    @property
    def scale(self) -> Scale:
        """How it may scale."""
        return self.unit.scale if self.unit else Scale()

    @property
    def host(self) -> str | None:
        """The host that it needs; None when it needs none."""
        return None if self.deleted or self.model is None else host_name(str(self.model.path))


@dataclass(frozen=True)
class Order:
    """One message to be sent: to a host, or to the node."""

    message: StartHost | StopHost | OpenTemplate | StartInstance | StopInstance
    host: str | None = None


@dataclass
class Plan:
    """What to do in one turn.

    Attributes:
        orders: in the order in which they are sent.
        purge: units whose records may go.
        due_s: when to make the next plan though nothing has happened.
        broken: hosts that are stopped since they, or something on them, took too long.
        scales, host_backoffs, template_backoffs: what to remember; the rest is forgotten.
    """

    orders: list[Order] = field(default_factory=list)
    purge: list[UnitKey] = field(default_factory=list)
    due_s: float | None = None
    broken: set[str] = field(default_factory=set)
    scales: dict[UnitKey, ScaleState] = field(default_factory=dict)
    host_backoffs: dict[str, Backoff] = field(default_factory=dict)
    template_backoffs: dict[tuple[str, str], Backoff] = field(default_factory=dict)

    def note_due(self, due_s: float | None) -> None:
        """Take an earlier time for the next plan."""
        if due_s is not None and (self.due_s is None or due_s < self.due_s):
            self.due_s = due_s


@dataclass(frozen=True)
class Limits:
    """The settings that plans need, and the source of instances' names."""

    idle_s: float
    drain_s: float
    start_s: float
    load_s: float
    make_name: Callable[[str], str]


def make_plan(world: World, wanted: Iterable[Wanted], limits: Limits, now_s: float) -> Plan:
    """Compare what is wanted with what is. Changes neither.

    Args:
        world: what is observed.
        wanted: all units of the store.
        limits: settings.
        now_s: the monotonic time now.
    """
    units = {unit.key: unit for unit in wanted}
    plan = Plan()
    _plan_hosts(plan, world, units, limits, now_s)
    _plan_templates(plan, world, units, now_s)
    for unit in units.values():
        plan.scales[unit.key] = _scale_state(world, unit.key, limits, now_s)
        if unit.host is None:
            _plan_end(plan, world, unit, limits)
            plan.note_due(None if unit.deleted else unit.retry_at_s)
        else:
            _plan_instances(plan, world, unit, limits, now_s)
    for item in world.instances.values():
        if (item.tenant, item.unit) not in units:
            _stop(plan, item, limits)
    _plan_overdue(plan, world, limits, now_s)
    return plan


def _plan_hosts(
    plan: Plan, world: World, units: Mapping[UnitKey, Wanted], limits: Limits, now_s: float
) -> None:
    needed = {
        unit.host: str(unit.model.path) for unit in units.values() if unit.host and unit.model
    }
    for name, backoff in world.host_backoffs.items():
        if name in needed:
            host = world.hosts.get(name)
            healthy = host is not None and host.life.state is HostState.READY
            plan.host_backoffs[name] = after_health(backoff, healthy=healthy, now_s=now_s)
    _plan_broken_hosts(plan, world, needed, limits, now_s)
    for backoff in plan.host_backoffs.values():
        plan.note_due(backoff_due_s(backoff, now_s))
    if not world.node_connected:
        return
    for name, path in needed.items():
        if name not in world.hosts and may_try(plan.host_backoffs.get(name, Backoff()), now_s):
            plan.orders.append(Order(StartHost(name, path)))
            plan.note_due(now_s + limits.load_s)
    busy = needed.keys() | {item.host for item in world.instances.values()}
    for host in world.hosts.values():
        unneeded = host.name not in busy and host.life.state is not HostState.STOPPING
        if unneeded or host.life.state is HostState.LOST or host.name in plan.broken:
            plan.orders.append(Order(StopHost(host.name)))


def _plan_broken_hosts(
    plan: Plan, world: World, needed: Container[str], limits: Limits, now_s: float
) -> None:
    if not world.node_connected:
        return  # nobody could be told
    for host in world.hosts.values():
        reason = _why_broken(world, host, limits, now_s)
        if reason is None:
            plan.note_due(load_due_s(host, limits.load_s))
            continue
        plan.broken.add(host.name)
        if host.name in needed:
            former = plan.host_backoffs.get(host.name, Backoff())
            plan.host_backoffs[host.name] = after_failure(former, reason, now_s)


def _why_broken(world: World, host: TrackedHost, limits: Limits, now_s: float) -> str | None:
    if is_load_overdue(host, limits.load_s, now_s):
        return f"it did not load its model within {limits.load_s:g} s"
    hung = hung_instance(host, world.instances.values(), now_s)
    return f"its instance {hung.name} did not end when it was told to" if hung else None


def _plan_templates(
    plan: Plan, world: World, units: Mapping[UnitKey, Wanted], now_s: float
) -> None:
    for name, tenant in dict.fromkeys(
        (unit.host, unit.tenant) for unit in units.values() if unit.host
    ):
        host = world.hosts.get(name)
        state = host.templates.get(tenant) if host else None
        backoff = after_health(
            world.template_backoffs.get((name, tenant), Backoff()),
            healthy=state is TemplateState.READY,
            now_s=now_s,
        )
        plan.template_backoffs[name, tenant] = backoff
        plan.note_due(backoff_due_s(backoff, now_s))
        loaded = host is not None and host.life.state is HostState.READY
        loaded = loaded and name not in plan.broken
        if loaded and state in (None, TemplateState.FAILED) and may_try(backoff, now_s):
            plan.orders.append(Order(OpenTemplate(tenant), name))


def _scale_state(world: World, key: UnitKey, limits: Limits, now_s: float) -> ScaleState:
    """Return what a unit's decision remembers, with a failure for each start that is late now."""
    state = world.scales.get(key, ScaleState())
    for item in world.instances_of(key):
        if item.life.state is State.STARTING and is_overdue(item, limits.start_s, now_s):
            reason = f"{item.name} did not come up within {limits.start_s:g} s"
            state = replace(state, backoff=after_failure(state.backoff, reason, now_s))
    return state


def _plan_overdue(plan: Plan, world: World, limits: Limits, now_s: float) -> None:
    """Tell what takes too long to stop, those that were told already too; note what is due."""
    messages = (order.message for order in plan.orders)
    told = {message.instance for message in messages if isinstance(message, StopInstance)}
    stopping = {
        host.name for host in world.hosts.values() if host.life.state is not HostState.READY
    }
    for item in world.instances.values():
        if item.name in told or item.host in plan.broken | stopping:
            continue
        if not is_overdue(item, limits.start_s, now_s):
            plan.note_due(due_s(item, limits.start_s))
        elif item.life.state is State.STARTING:
            _stop(plan, item, limits)
        elif item.stops == 1:
            plan.orders.append(Order(StopInstance(item.name, 0.0), item.host))
    for message in (order.message for order in plan.orders):
        # A host that hangs says nothing that would wake the loop.
        if isinstance(message, StartInstance):
            plan.note_due(now_s + limits.start_s)
        elif isinstance(message, StopInstance):
            plan.note_due(now_s + message.drain_s + GRACE_S)


def _plan_end(plan: Plan, world: World, unit: Wanted, limits: Limits) -> None:
    items = world.instances_of(unit.key)
    for item in items:
        _stop(plan, item, limits)
    if unit.deleted and not items:
        plan.purge.append(unit.key)


def _plan_instances(plan: Plan, world: World, unit: Wanted, limits: Limits, now_s: float) -> None:
    items = world.instances_of(unit.key)
    old = [item for item in items if item.host != unit.host]
    new = [item for item in items if item.host == unit.host]
    waiting, running = world.demand(unit.key)
    if old and not _roll_over(plan, world, unit, old, new, waiting + running, limits):
        return
    decision = decide_instances(
        plan.scales[unit.key],
        Observed(waiting, running, tuple(item.view for item in new), reserved=len(old)),
        ScaleSpec(unit.scale.min_instances, unit.scale.max_instances, limits.idle_s),
        now_s,
    )
    plan.scales[unit.key] = decision.next_state
    plan.note_due(decision.due_s)
    for action in decision.actions:
        if isinstance(action, Stop):
            _stop(plan, world.instances[action.name], limits)
        elif _can_start(plan, world, unit):
            _start(plan, unit, action, limits)


def _roll_over(
    plan: Plan,
    world: World,
    unit: Wanted,
    old: list[TrackedInstance],
    new: list[TrackedInstance],
    demand: int,
    limits: Limits,
) -> bool:
    """Plan the end of an older model's instances; False while only they can serve."""
    serving = [item for item in old if item.life.state is State.READY]
    new_serves = any(item.life.state is State.READY for item in new)
    for item in old:
        if item.life.state is State.STARTING:
            _stop(plan, item, limits)
    if serving and not new_serves and demand and not _is_warm(plan, world, unit):
        return False
    room = unit.scale.max_instances - len(old) - len(new)
    if new_serves or not demand:
        leaving = serving
    elif room <= 0 and not new and len(serving) == len(old):
        leaving = serving[:1]
    else:
        leaving = []
    for item in leaving:
        _stop(plan, item, limits)
    return True


def _is_warm(plan: Plan, world: World, unit: Wanted) -> bool:
    host = world.hosts.get(unit.host or "")
    return _can_start(plan, world, unit) and (
        host is not None and host.templates.get(unit.tenant) is TemplateState.READY
    )


def _can_start(plan: Plan, world: World, unit: Wanted) -> bool:
    host: TrackedHost | None = world.hosts.get(unit.host or "")
    return (
        host is not None
        and host.name not in plan.broken
        and host.life.state is HostState.READY
        and host.templates.get(unit.tenant) is not TemplateState.FAILED
    )


def _start(plan: Plan, unit: Wanted, action: Start, limits: Limits) -> None:
    for _ in range(action.count):
        name = limits.make_name(unit.name)
        plan.orders.append(Order(StartInstance(name, unit.tenant, unit.name), unit.host))


def _stop(plan: Plan, item: TrackedInstance, limits: Limits) -> None:
    if item.life.state in (State.STARTING, State.READY):
        plan.orders.append(Order(StopInstance(item.name, limits.drain_s), item.host))
