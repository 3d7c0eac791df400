"""The hosts and templates that are to be there: one host a model, on it one template a tenant.

Which those are is planned before (`_plan_warmth`). Pure.
"""

from collections.abc import Collection, Container, Iterable

from sits.control._actions import Limits, Order, Plan
from sits.control._lifecycle import HostState
from sits.control._overdue import GRACE_S, hung_instance, is_load_overdue, load_due_s
from sits.control._tracked import TemplateState, TrackedHost
from sits.control._wanted import Release, Wanted
from sits.control._world import World
from sits.policy import Backoff, after_failure, after_health, backoff_due_s, may_try
from sits.wire import CloseTemplate, OpenTemplate, StopHost

_CANNOT_START = (TemplateState.FAILED, TemplateState.CLOSING)


def plan_hosts(
    plan: Plan, world: World, units: Collection[Wanted], limits: Limits, now_s: float
) -> None:
    """Plan the hosts that keep something warm, and the end of those that do not."""
    known = {release.host: release for unit in units for release in unit.releases if release.host}
    # Also of those that are cool: to cool down mends nothing.
    for name, backoff in world.host_backoffs.items():
        if name in known:
            host = world.hosts.get(name)
            healthy = host is not None and host.life.state is HostState.READY
            plan.host_backoffs[name] = after_health(backoff, healthy=healthy, now_s=now_s)
    _plan_broken_hosts(plan, world, known, limits, now_s)
    for backoff in plan.host_backoffs.values():
        plan.note_due(backoff_due_s(backoff, now_s))
    if not world.node_connected:
        return
    for name in needed_hosts(plan, units):
        start = known[name].start_host
        may_start = may_try(plan.host_backoffs.get(name, Backoff()), now_s)
        if name not in world.hosts and start is not None and may_start:
            plan.orders.append(Order(start))
            plan.note_due(now_s + limits.load_s)
    busy = {name for name, _ in plan.kept} | {item.host for item in world.instances.values()}
    for host in world.hosts.values():
        unneeded = host.name not in busy and host.life.state is not HostState.STOPPING
        if unneeded or host.life.state is HostState.LOST or host.name in plan.broken:
            plan.orders.append(Order(StopHost(host.name)))


def needed_hosts(plan: Plan, units: Iterable[Wanted]) -> dict[str, None]:
    """Return the hosts on which something is kept for units, in the units' order."""
    return dict.fromkeys(
        release.place[0]
        for unit in units
        for release in unit.releases
        if release.place and release.place in plan.kept
    )


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


def plan_templates(plan: Plan, world: World, units: Collection[Wanted], now_s: float) -> None:
    """Plan the templates that are to be there, and the end of others on hosts that stay."""
    for place in dict.fromkeys(
        release.place for unit in units for release in unit.releases if release.place
    ):
        host, tenant = world.hosts.get(place[0]), place[1]
        state = host.templates.get(tenant) if host else None
        backoff = after_health(
            world.template_backoffs.get(place, Backoff()),
            healthy=state is TemplateState.READY,
            now_s=now_s,
        )
        plan.template_backoffs[place] = backoff
        plan.note_due(backoff_due_s(backoff, now_s))
        if host is None or place not in plan.kept or not may_try(backoff, now_s):
            continue
        if _may_open(plan, host, tenant, now_s):
            plan.orders.append(Order(OpenTemplate(tenant), host.name))
    staying = needed_hosts(plan, units)
    for name, tenant in plan.closing:
        if name in staying and name not in plan.broken:
            plan.orders.append(Order(CloseTemplate(tenant), name))


def _may_open(plan: Plan, host: TrackedHost, tenant: str, now_s: float) -> bool:
    """Return whether a host can be told to open a template, and has none."""
    if host.life.state is not HostState.READY or host.name in plan.broken:
        return False
    state = host.templates.get(tenant)
    if state is TemplateState.CLOSING:
        # It is waited for, so that what is opened is not what closes; but not for ever.
        until_s = host.closing_s.get(tenant, now_s) + GRACE_S
        plan.note_due(until_s)
        return now_s >= until_s
    return state in (None, TemplateState.FAILED)


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
        and host.templates.get(release.tenant) not in _CANNOT_START
    )
