"""A plan taken over into the world, before anything of it is sent.

The order matters: an instance that is to stop is draining, and so off the routing table, before
`StopInstance` (or its host's `StopHost`) goes out; what is to start is counted before anyone
could plan it again.
"""

from collections.abc import Container
from typing import TypeVar

from sits.control._actions import Order, Plan
from sits.control._lifecycle import HostEvent, State
from sits.control._tracked import TemplateState, TrackedHost, TrackedInstance
from sits.control._world import World
from sits.wire import (
    CloseTemplate,
    OpenTemplate,
    StartHost,
    StartInstance,
    StopHost,
    StopInstance,
    TeachPrefix,
)

K = TypeVar("K")


def apply_plan(world: World, plan: Plan, now_s: float) -> None:
    """Change the world as if all of the plan's orders had been sent at `now_s`. Mutates it."""
    world.scales = dict(plan.scales)
    world.host_backoffs = dict(plan.host_backoffs)
    world.template_backoffs = dict(plan.template_backoffs)
    world.canary_backoffs = dict(plan.canary_backoffs)
    world.template_uses = dict(plan.template_uses)
    world.template_bytes = _known(world.template_bytes, plan.template_uses)
    world.host_bytes = _known(world.host_bytes, {host for host, _ in plan.template_uses})
    world.cold = frozenset(plan.cold)
    for key in plan.purge:
        world.starts.pop(key, None)
    world.notes += plan.notes
    for order in plan.orders:
        _apply_order(world, order, now_s)


def _known(measured: dict[K, int], keys: Container[K]) -> dict[K, int]:
    return {key: size_bytes for key, size_bytes in measured.items() if key in keys}


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
            world.hosts[order.host].set_template(tenant, TemplateState.OPENING)
        case CloseTemplate(tenant=tenant):
            assert order.host is not None
            world.hosts[order.host].set_template(tenant, TemplateState.CLOSING)
            world.hosts[order.host].closing_s[tenant] = now_s
        case TeachPrefix(tenant=tenant, unit=unit, prompt=prompt, adapters=adapters):
            assert order.host is not None
            host = world.hosts[order.host]
            host.taught.setdefault(tenant, set()).add((unit, prompt, adapters))
            host.learning[tenant] = host.learning.get(tenant, 0) + 1
        case StartInstance(instance=name, tenant=tenant, unit=unit):
            assert order.host is not None
            item = TrackedInstance(name, tenant, unit, order.host, told_s=now_s)
            item.is_canary, item.is_cold = order.is_canary, order.is_cold
            world.add_instance(item)
        case StopInstance(instance=name, drain_s=drain_s):
            world.instances[name].stop(drain_s, now_s)
