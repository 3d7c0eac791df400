"""A unit's state, part by part: a list of conditions, each with a reason and a message. Pure.

`True` is what a person wants to see of every type.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sits.control._health import is_cool, left_out, release_trouble, rollout_problem
from sits.control._lifecycle import HostState, State
from sits.control._room import LEFT_OUT
from sits.control._tracked import TemplateState
from sits.control._wanted import Wanted
from sits.control._world import World


@dataclass(frozen=True)
class Condition:
    """One thing that is so, is not so, or is not known yet.

    Attributes:
        type: what it is about.
        status: `True`, `False` or `Unknown`.
        reason: one word for scripts.
        message: the same for people.
    """

    type: str
    status: str
    reason: str
    message: str


def make_conditions(
    world: World, unit: Wanted, refusal: str | None, now_s: float
) -> tuple[Condition, ...]:
    """Return a unit's conditions.

    Args:
        world: what is observed.
        unit: what is wanted.
        refusal: what callers are told instead of being held, if anything.
        now_s: the monotonic time now.
    """
    return (
        _ready(world, unit, refusal),
        _model(unit),
        *_adapters(unit),
        _rolled_out(world, unit, now_s),
        _active(world, unit),
        _acted_on(unit),
    )


def _ready(world: World, unit: Wanted, refusal: str | None) -> Condition:
    if refusal:
        reason = "PlatformFull" if left_out(world, unit) else "CannotServe"
        return Condition("Ready", "False", reason, refusal)
    release = unit.current
    trouble = release_trouble(world, unit.key, release)
    if trouble and not _ready_count(world, unit):
        return Condition("Ready", "False", "CrashLoop", trouble)
    host = world.hosts.get(release.host or "")
    is_up = host is not None and host.life.state is HostState.READY
    if is_up and host and host.templates.get(release.tenant) is TemplateState.READY:
        return Condition("Ready", "True", "Serving", "it answers requests")
    if unit.serving is not None and is_cool(world, release):
        return Condition("Ready", "True", "Cool", "it answers requests: the next loads its model")
    return Condition("Ready", "Unknown", "GettingReady", "requests are held until it is ready")


def _model(unit: Wanted) -> Condition:
    release = unit.target
    kind = "ModelAvailable"
    if release.remotes:
        count = len(release.remotes)
        return Condition(kind, "True", "Elsewhere", f"{count} endpoints elsewhere have it")
    if release.model is not None:
        size_mb = release.model.size_bytes / 1e6
        form = release.model.representation or "as shipped"
        return Condition(kind, "True", "Here", f"{release.model.path} ({form}, {size_mb:.0f} MB)")
    if release.problem:
        return Condition(kind, "False", "Unavailable", release.problem)
    return Condition(kind, "Unknown", "Pulling", release.progress or "it is being looked up")


def _adapters(unit: Wanted) -> Iterator[Condition]:
    """Yield how the adapters are, of a unit that has any."""
    release, kind = unit.target, "AdaptersAvailable"
    if not release.adapter_pins:
        return
    names = ", ".join(pin.reference for pin in release.adapter_pins)
    if release.adapters:
        yield Condition(kind, "True", "Here", names)
    elif release.problem:
        yield Condition(kind, "False", "Unavailable", release.problem)
    else:
        yield Condition(kind, "Unknown", "Pulling", release.progress or names)


def _rolled_out(world: World, unit: Wanted, now_s: float) -> Condition:
    kind, newest = "RolledOut", unit.target.revision
    if left_out(world, unit):
        return Condition(kind, "False", "PlatformFull", LEFT_OUT)
    if unit.serving is not None and not unit.is_rolling:
        return Condition(kind, "True", "Complete", f"revision {newest} takes traffic")
    problem = rollout_problem(world, unit, now_s)
    if problem:
        return Condition(kind, "False", "Failed", f"revision {newest}: {problem}")
    former = f"; revision {unit.current.revision} takes traffic" if unit.is_rolling else ""
    return Condition(kind, "Unknown", "Progressing", f"revision {newest} gets ready{former}")


def _active(world: World, unit: Wanted) -> Condition:
    items = world.instances_of(unit.key)
    ready = _ready_count(world, unit)
    if ready:
        return Condition("Active", "True", "Running", f"instances that run: {ready}")
    if any(item.life.state is State.STARTING for item in items):
        return Condition("Active", "Unknown", "Starting", "an instance starts")
    return Condition("Active", "False", "ScaledToZero", "no instance runs; a request starts one")


def _ready_count(world: World, unit: Wanted) -> int:
    return sum(item.life.state is State.READY for item in world.instances_of(unit.key))


def _acted_on(unit: Wanted) -> Condition:
    kind, idle = "ActedOn", unit.target.idle_fields
    if not idle:
        return Condition(kind, "True", "Whole", "all that it says is acted on")
    paths = ", ".join(field.path for field in idle)
    return Condition(kind, "False", "NotBuiltYet", f"kept, and not acted on: {paths}")
