"""A plan taken over into the world, before anything of it is sent.

The order matters: an instance that is to stop is draining, and so off the routing table, before
`StopInstance` goes out; what is to start is counted before anyone could plan it again.
"""

from sits.control._lifecycle import Event, HostEvent
from sits.control._plan import Order, Plan
from sits.control._world import TemplateState, TrackedHost, TrackedInstance, World
from sits.wire import OpenTemplate, StartHost, StartInstance, StopHost, StopInstance


def apply_plan(world: World, plan: Plan) -> None:
    """Change the world as if all of the plan's orders had been sent. Mutates `world`."""
    world.scales = dict(plan.scales)
    world.host_backoffs = dict(plan.host_backoffs)
    world.template_backoffs = dict(plan.template_backoffs)
    for order in plan.orders:
        _apply_order(world, order)


def _apply_order(world: World, order: Order) -> None:
    match order.message:
        case StartHost(host=name, model_path=path):
            world.hosts[name] = TrackedHost(name, path)
        case StopHost(host=name):
            world.hosts[name].life.advance(HostEvent.STOP)
        case OpenTemplate(tenant=tenant):
            assert order.host is not None
            world.hosts[order.host].templates[tenant] = TemplateState.OPENING
        case StartInstance(instance=name, tenant=tenant, unit=unit):
            assert order.host is not None
            world.instances[name] = TrackedInstance(name, tenant, unit, order.host)
        case StopInstance(instance=name):
            world.instances[name].life.advance(Event.STOP)
