"""Which templates are kept warm, and what is taught to those that are there. Pure.

The policy decides (`sits.policy.decide_templates`); here is what it is shown of units and hosts.
A unit that was never ready is made warm once, so that its first start is known to work. From then
on it is warm for `scale.cool_after` after each request, and cool after that: what nothing keeps
warm is closed, and a host that keeps nothing warm is stopped.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sits.control._actions import Limits, Order, Plan
from sits.control._lifecycle import HostState
from sits.control._tracked import TemplateState
from sits.control._wanted import Release, Wanted
from sits.control._world import World
from sits.policy import Memory, TemplateKey, TemplateView, decide_templates
from sits.wire import TeachPrefix, UnitPrompt

_NO_PROMPT = UnitPrompt()


def plan_warmth(
    plan: Plan, world: World, units: Collection[Wanted], limits: Limits, now_s: float
) -> None:
    """Plan which templates there are to be."""
    decision = decide_templates(
        world.template_uses, _views(world, units, limits), _memory(world, limits), now_s
    )
    plan.kept = decision.keep
    plan.closing = dict(decision.close)
    plan.template_uses = dict(decision.uses)
    plan.note_due(decision.due_s)
    if plan.closing:
        for unit in units:
            why = plan.closing.get(unit.current.place) if unit.current.place else None
            if why and not unit.deleted:
                plan.note(unit.key, "Cooled", f"its next start loads its model again: {why}")


@dataclass
class _Wish:
    """What is known of one template from all that has to do with it."""

    cool_s: float = 0.0
    is_needed: bool = False
    is_busy: bool = False


def _views(world: World, units: Collection[Wanted], limits: Limits) -> Iterator[TemplateView]:
    wishes: dict[TemplateKey, _Wish] = {}
    for unit in units:
        for release in unit.releases:
            if release.place is not None:
                wish = wishes.setdefault(release.place, _Wish())
                wish.cool_s = max(wish.cool_s, _cool_s(release, limits))
                wish.is_busy = wish.is_busy or _is_busy(world, unit, release)
    for item in world.instances.values():
        wishes.setdefault((item.host, item.tenant), _Wish()).is_needed = True
    for host in world.hosts.values():
        for tenant in host.templates:
            wish = wishes.setdefault((host.name, tenant), _Wish())
            # What it learns outlives it, in a file, but only once it is learnt.
            wish.is_needed = wish.is_needed or host.learning.get(tenant, 0) > 0
    for key, wish in wishes.items():
        yield TemplateView(
            *key,
            is_needed=wish.is_needed or wish.is_busy,
            is_busy=wish.is_busy,
            is_open=_state(world, key) is TemplateState.READY,
            cool_s=wish.cool_s,
            memory_bytes=world.template_bytes.get(key, 0),
        )


def _cool_s(release: Release, limits: Limits) -> float:
    return release.scale.cool_after.base if release.scale.cool_after else limits.cool_s


def _is_busy(world: World, unit: Wanted, release: Release) -> bool:
    """Return whether a revision answers requests, is always to be able to, or is got ready."""
    if unit.serving is None:
        return True
    if release.revision != unit.current.revision:
        return unit.failed is None or unit.failed.revision != release.revision
    return release.scale.min_instances > 0 or sum(world.demand(unit.key)) > 0


def _memory(world: World, limits: Limits) -> Memory | None:
    """Return the machine's memory, in which what was told to go has gone."""
    if world.machine is None:
        return None
    going_bytes = 0
    for host in world.hosts.values():
        stops = host.life.state is HostState.STOPPING
        going_bytes += world.host_bytes.get(host.name, 0) if stops else 0
        for tenant, state in host.templates.items():
            if stops or state is TemplateState.CLOSING:
                going_bytes += world.template_bytes.get((host.name, tenant), 0)
    reserve_bytes = int(limits.memory_reserve * world.machine.total_bytes)
    return Memory(world.machine.available_bytes + going_bytes, reserve_bytes, world.host_bytes)


def _state(world: World, key: TemplateKey) -> TemplateState | None:
    host = world.hosts.get(key[0])
    return host.templates.get(key[1]) if host else None


def plan_lessons(plan: Plan, world: World, units: Collection[Wanted]) -> None:
    """Plan what templates are taught: each unit's constant prompt once in a template's life.

    Units whose requests wait or run come first.
    """
    lessons: list[tuple[bool, Order]] = []
    for unit in units:
        for release in unit.releases:
            prompt, place = release.prompt, release.place
            if prompt == _NO_PROMPT or place not in plan.kept or place is None:
                continue
            host = world.hosts.get(place[0])
            if host is None or host.life.state is not HostState.READY or host.name in plan.broken:
                continue
            is_ready = host.templates.get(unit.tenant) is TemplateState.READY
            lesson = unit.name, prompt, release.adapters
            if is_ready and lesson not in host.taught.get(unit.tenant, ()):
                order = Order(TeachPrefix(unit.tenant, *lesson), host.name)
                lessons.append((sum(world.demand(unit.key)) == 0, order))
    lessons.sort(key=lambda lesson: lesson[0])
    plan.orders += (order for _, order in lessons)
