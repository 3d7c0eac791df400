"""A plan taken over into the world, before anything of it is sent.

The order matters: an instance that is to stop is draining, and so off the routing table, before
`StopInstance` (or its host's `StopHost`) goes out; what is to start is counted before anyone
could plan it again.
"""

from sits.control._actions import Order, Plan
from sits.control._lifecycle import HostEvent, State
from sits.control._world import TemplateState, TrackedHost, TrackedInstance, World
from sits.wire import OpenTemplate, StartHost, StartInstance, StopHost, StopInstance


def apply_plan(world: World, plan: Plan, now_s: float) -> None:
    """Change the world as if all of the plan's orders had been sent at `now_s`. Mutates it."""
    world.scales = dict(plan.scales)
    world.host_backoffs = dict(plan.host_backoffs)
    world.template_backoffs = dict(plan.template_backoffs)
    world.canary_backoffs = dict(plan.canary_backoffs)
    world.notes += plan.notes
    for order in plan.orders:
        _apply_order(world, order, now_s)


def _apply_order(world: World, order: Order, now_s: float) -> None:
    match order.message:
        case StartHost(host=name):
            world.hosts[name] = TrackedHost(name, now_s)
        case StopHost(host=name):
            world.hosts[name].life.advance(HostEvent.STOP)
            for item in world.instances.values():
                if item.host == name and item.life.state is not State.DRAINING:
                    item.stop(0.0, now_s)
        case OpenTemplate(tenant=tenant):
            assert order.host is not None
            world.hosts[order.host].templates[tenant] = TemplateState.OPENING
        case StartInstance(instance=name, tenant=tenant, unit=unit):
            assert order.host is not None
            item = TrackedInstance(name, tenant, unit, order.host, told_s=now_s)
            item.is_canary = order.is_canary
            world.add_instance(item)
        case StopInstance(instance=name, drain_s=drain_s):
            world.instances[name].stop(drain_s, now_s)
