"""The instances of one unit, and how a newer revision takes its traffic over. Pure.

An instance belongs to (tenant, unit, host, variant): a revision that changes only what requests
carry (prompt) keeps its instances and takes traffic at once. Any other is got ready beside the
one that serves: its model, its host, its template, and, where `max_instances` leaves room and
anything runs, a first instance. Only then does the route point at it (`Plan.promote`), and the
former revision's instances go; where there was no room, an old one drains first. A revision that
took traffic and of which then no instance comes up gives it back (`Plan.revert`).
"""

from dataclasses import replace

from sits.control._actions import Limits, Order, Plan
from sits.control._health import by_name
from sits.control._lifecycle import State
from sits.control._overdue import is_overdue
from sits.control._plan_hosts import can_start, is_warm
from sits.control._tracked import TrackedInstance
from sits.control._wanted import FailedRollout, Release, UnitKey, Wanted
from sits.control._world import World
from sits.policy import (
    Backoff,
    Observed,
    ScaleSpec,
    ScaleState,
    Start,
    Stop,
    after_failure,
    backoff_due_s,
    decide_instances,
    may_try,
)
from sits.wire import StartInstance, StopInstance

# Failed starts in a row after which a revision that was never up gives traffic back. Requests are
# held meanwhile: with the pauses between them, about two seconds.
REVERT_FAILURES = 3


def plan_unit(plan: Plan, world: World, unit: Wanted, limits: Limits, now_s: float) -> None:
    """Plan one unit's instances."""
    if _is_quiet(world, unit):
        return
    plan.scales[unit.key] = _scale_state(world, unit.key, limits, now_s)
    if unit.deleted:
        _plan_end(plan, world, unit, limits)
        return
    _note_cold(plan, world, unit)
    if unit.serving is not None:
        _judge(plan, world, unit)
    elif is_warm(plan, world, unit.target):
        plan.promote.append(unit.key)
    if unit.is_rolling:
        _plan_rollout(plan, world, unit, limits, now_s)
    if unit.current.host is None:
        if not unit.is_rolling:
            _plan_end(plan, world, unit, limits)
        return
    _plan_instances(plan, world, unit, limits, now_s)


def _is_quiet(world: World, unit: Wanted) -> bool:
    """Return whether there is nothing to do, as for most of a thousand units: cheaper to see."""
    state = world.scales.get(unit.key)
    return (
        unit.serving is unit.target
        and not unit.deleted
        and unit.target.scale.min_instances == 0
        and world.demand(unit.key) == (0, 0)
        and not world.has_instances(unit.key)
        and (state is None or not state.backoff.failures)
    )


def _note_cold(plan: Plan, world: World, unit: Wanted) -> None:
    """Remember that requests wait, or have waited until now, for the model to be taken in."""
    ready = any(item.life.state is State.READY for item in world.instances_of(unit.key))
    if not world.demand(unit.key)[0] or ready:
        return
    is_taken_in = unit.current.host is None and unit.current.problem is None
    if is_taken_in or unit.key in world.cold:
        plan.cold.add(unit.key)


def stop_instance(plan: Plan, item: TrackedInstance, limits: Limits, why: str) -> None:
    """Plan the end of an instance that is not ending yet."""
    if item.life.state in (State.STARTING, State.READY):
        plan.orders.append(Order(StopInstance(item.name, limits.drain_s), item.host))
        plan.note(item.key, "Stopping", f"{item.name} stops: {why}")


def _scale_state(world: World, key: UnitKey, limits: Limits, now_s: float) -> ScaleState:
    """Return what a unit's decision remembers, with a failure for each start that is late now."""
    state = world.scales.get(key, ScaleState())
    late = _late_starts(world, key, limits, now_s)
    backoff = _after_late(
        state.backoff, [item for item in late if not item.is_canary], limits, now_s
    )
    return replace(state, backoff=backoff)


def _late_starts(world: World, key: UnitKey, limits: Limits, now_s: float) -> list[TrackedInstance]:
    return [
        item
        for item in world.instances_of(key)
        if item.life.state is State.STARTING and is_overdue(item, limits.start_s, now_s)
    ]


def _after_late(
    backoff: Backoff, late: list[TrackedInstance], limits: Limits, now_s: float
) -> Backoff:
    for item in late:
        reason = f"{item.name} did not come up within {limits.start_s:g} s"
        backoff = after_failure(backoff, reason, now_s)
    return backoff


def _plan_end(plan: Plan, world: World, unit: Wanted, limits: Limits) -> None:
    items = world.instances_of(unit.key)
    for item in items:
        stop_instance(plan, item, limits, "the unit is deleted" if unit.deleted else "no model")
    if unit.deleted and not items:
        plan.purge.append(unit.key)


# a newer revision


def _judge(plan: Plan, world: World, unit: Wanted) -> None:
    """See whether the revision that takes traffic has an instance, or gets none."""
    revision = unit.current.revision
    if unit.proven == revision:
        return
    items = world.instances_of(unit.key)
    if any(item.life.state is State.READY and item.serves(unit.current) for item in items):
        plan.prove.append(unit.key)
        return
    backoff = plan.scales[unit.key].backoff
    if unit.proven is not None and backoff.failures >= REVERT_FAILURES:
        plan.revert[unit.key] = FailedRollout(revision, by_name(backoff.reason, unit.current))


def _plan_rollout(plan: Plan, world: World, unit: Wanted, limits: Limits, now_s: float) -> None:
    late = [item for item in _late_starts(world, unit.key, limits, now_s) if item.is_canary]
    backoff = world.canary_backoffs.get(unit.key, Backoff())
    backoff = _after_late(backoff, late, limits, now_s)
    plan.canary_backoffs[unit.key] = backoff
    plan.note_due(backoff_due_s(backoff, now_s))
    target = unit.target
    if unit.failed is not None and unit.failed.revision == target.revision:
        return  # until somebody deploys again
    if target.runs_as(unit.current):
        plan.promote.append(unit.key)
        return
    if not is_warm(plan, world, target):
        return
    items = world.instances_of(unit.key)
    canaries = [item for item in items if item.serves(target)]
    if any(item.life.state is State.READY for item in canaries) or not _needs_canary(
        world, unit, items
    ):
        plan.promote.append(unit.key)
    elif not canaries and may_try(backoff, now_s):
        _start(plan, target, limits, "to see whether the new revision comes up", is_canary=True)


def _needs_canary(world: World, unit: Wanted, items: list[TrackedInstance]) -> bool:
    """Return whether an instance is to be up before traffic goes over: if one fits, and serves."""
    has_room = len(items) < unit.target.scale.max_instances
    has_canary = any(item.serves(unit.target) for item in items)
    is_used = sum(world.demand(unit.key)) > 0 or unit.target.scale.min_instances > 0 or items
    return unit.current.host is not None and bool(is_used) and (has_room or has_canary)


# the revision that takes traffic


def _plan_instances(plan: Plan, world: World, unit: Wanted, limits: Limits, now_s: float) -> None:
    release = unit.current
    items = world.instances_of(unit.key)
    new = [item for item in items if item.serves(release)]
    others = [item for item in items if not item.serves(release)]
    canaries = [item for item in others if unit.is_rolling and item.serves(unit.target)]
    old = [item for item in others if item not in canaries]
    waiting, running = world.demand(unit.key)
    if old and not _roll_over(plan, world, release, (old, new), waiting + running, limits):
        return
    decision = decide_instances(
        plan.scales[unit.key],
        Observed(waiting, running, tuple(item.view for item in new), reserved=len(others)),
        ScaleSpec(
            release.scale.min_instances, release.scale.max_instances, _idle_s(release, limits)
        ),
        now_s,
    )
    plan.scales[unit.key] = decision.next_state
    plan.note_due(decision.due_s)
    for action in decision.actions:
        if isinstance(action, Stop):
            stop_instance(plan, world.instances[action.name], limits, decision.reason)
        elif can_start(plan, world, release):
            _start_some(plan, release, action, limits, decision.reason)


def _idle_s(release: Release, limits: Limits) -> float:
    return release.scale.idle.base if release.scale.idle else limits.idle_s


def _roll_over(
    plan: Plan,
    world: World,
    release: Release,
    items: tuple[list[TrackedInstance], list[TrackedInstance]],
    demand: int,
    limits: Limits,
) -> bool:
    """Plan the end of a former revision's instances; False while only they can serve.

    Args:
        plan: changed.
        world: what is observed.
        release: the revision that takes traffic.
        items: the former revision's instances, and this one's.
        demand: requests in flight.
        limits: settings.
    """
    old, new = items
    serving = [item for item in old if item.life.state is State.READY]
    new_serves = any(item.life.state is State.READY for item in new)
    for item in old:
        if item.life.state is State.STARTING:
            stop_instance(plan, item, limits, "it is of a former revision")
    if serving and not new_serves and demand and not is_warm(plan, world, release):
        return False
    room = release.scale.max_instances - len(old) - len(new)
    if new_serves or not demand:
        leaving = serving
    elif room <= 0 and not new and len(serving) == len(old):
        leaving = serving[:1]
    else:
        leaving = []
    for item in leaving:
        stop_instance(plan, item, limits, "it is of a former revision")
    return True


def _start_some(plan: Plan, release: Release, action: Start, limits: Limits, why: str) -> None:
    for _ in range(action.count):
        _start(plan, release, limits, why)


def _start(
    plan: Plan, release: Release, limits: Limits, why: str, *, is_canary: bool = False
) -> None:
    name = limits.make_name(release.name, release.variant)
    start = StartInstance(
        name,
        release.tenant,
        release.name,
        release.remotes,
        prompt=release.prompt,
        itl_ms=release.itl_ms,
        adapters=release.adapters,
    )
    is_cold = (release.tenant, release.name) in plan.cold
    plan.orders.append(Order(start, release.host, is_canary, is_cold))
    plan.note((release.tenant, release.name), "Starting", f"{name} starts: {why}")
