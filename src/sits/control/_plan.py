"""What is to be done, from what is wanted and what is: pure, and from scratch every time."""

from collections.abc import Iterable

from sits.control._actions import Limits, Order, Plan
from sits.control._lifecycle import HostState, State
from sits.control._overdue import GRACE_S, due_s, is_overdue
from sits.control._plan_hosts import plan_hosts, plan_templates
from sits.control._plan_units import plan_unit, stop_instance
from sits.control._plan_warmth import plan_lessons, plan_warmth
from sits.control._wanted import Wanted
from sits.control._world import World
from sits.wire import StartInstance, StopInstance


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
    plan_warmth(plan, world, units.values(), limits, now_s)
    plan_hosts(plan, world, units.values(), limits, now_s)
    plan_templates(plan, world, units.values(), now_s)
    for unit in units.values():
        plan_unit(plan, world, unit, limits, now_s)
    for item in world.instances.values():
        if item.key not in units:
            stop_instance(plan, item, limits, "its unit is not there")
    plan_lessons(plan, world, units.values())
    _plan_overdue(plan, world, limits, now_s)
    return plan


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
            stop_instance(plan, item, limits, "it did not come up in time")
        elif item.stops == 1:
            plan.orders.append(Order(StopInstance(item.name, 0.0), item.host))
    for message in (order.message for order in plan.orders):
        # A host that hangs says nothing that would wake the loop.
        if isinstance(message, StartInstance):
            plan.note_due(now_s + limits.start_s)
        elif isinstance(message, StopInstance):
            plan.note_due(now_s + message.drain_s + GRACE_S)
