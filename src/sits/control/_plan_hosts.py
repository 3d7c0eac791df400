"""The hosts and templates that units need: one host for each model, on it one template a tenant.

Pure.
"""

from collections.abc import Container, Iterable

from sits.control._actions import Limits, Order, Plan
from sits.control._lifecycle import HostState
from sits.control._overdue import hung_instance, is_load_overdue, load_due_s
from sits.control._wanted import Release, Wanted
from sits.control._world import TemplateState, TrackedHost, World
from sits.policy import Backoff, after_failure, after_health, backoff_due_s, may_try
from sits.wire import OpenTemplate, StopHost


def plan_hosts(
    plan: Plan, world: World, units: Iterable[Wanted], limits: Limits, now_s: float
) -> None:
    """Plan the hosts that units need, and the end of those that none does."""
    needed = {
        start.host: start
        for unit in units
        for release in unit.releases
        if (start := release.start_host)
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
    for name, start in needed.items():
        if name not in world.hosts and may_try(plan.host_backoffs.get(name, Backoff()), now_s):
            plan.orders.append(Order(start))
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


def plan_templates(plan: Plan, world: World, units: Iterable[Wanted], now_s: float) -> None:
    """Plan the templates that units need."""
    for name, tenant in dict.fromkeys(
        (release.host, unit.tenant) for unit in units for release in unit.releases if release.host
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


def is_warm(plan: Plan, world: World, release: Release) -> bool:
    """Return whether an instance of a release would start from a template."""
    host = world.hosts.get(release.host or "")
    return can_start(plan, world, release) and (
        host is not None and host.templates.get(release.tenant) is TemplateState.READY
    )


def can_start(plan: Plan, world: World, release: Release) -> bool:
    """Return whether a release's host can be told to start an instance."""
    host: TrackedHost | None = world.hosts.get(release.host or "")
    return (
        host is not None
        and host.name not in plan.broken
        and host.life.state is HostState.READY
        and host.templates.get(release.tenant) is not TemplateState.FAILED
    )
