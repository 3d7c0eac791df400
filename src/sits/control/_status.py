"""What people and callers are told about a unit, from what is wanted and what is. Pure."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from sits.control._conditions import Condition, make_conditions
from sits.control._health import (
    by_name,
    has_failed,
    host_state,
    is_cool,
    left_out,
    release_refusal,
    release_trouble,
    rollout_problem,
)
from sits.control._lifecycle import HostState, State
from sits.control._room import LEFT_OUT
from sits.control._tracked import TemplateState
from sits.control._wanted import Release, Wanted
from sits.control._world import World
from sits.policy import Backoff, ScaleState
from sits.wire import Tier


class UnitPhase(StrEnum):
    """A unit in one word."""

    DEPLOYING = "Deploying"
    UPDATING = "Updating"
    READY = "Ready"
    FAILED = "Failed"
    DELETING = "Deleting"


@dataclass(frozen=True)
class UnitStatus:
    """A unit's state.

    Attributes:
        reason: one word for scripts.
        message: the same for people, with what to do where something is to be done.
        serving_revision: the revision that takes traffic; None: none was ever ready.
        conditions: the state, part by part.
        instances: how many are in each state of their life.
        tier: how warm the next request's start would be.
        starts: how many instances have come up from each tier since control was started.
        refusal: what callers are told instead of being held; None: they are served or held.
    """

    phase: UnitPhase
    reason: str
    message: str
    serving_revision: str | None
    conditions: tuple[Condition, ...]
    instances: dict[str, int]
    tier: Tier
    starts: dict[str, int]
    refusal: str | None = None


_SHOWN = tuple(str(state) for state in State if state is not State.GONE)


def unit_status(world: World, unit: Wanted, now_s: float, *, brief: bool = False) -> UnitStatus:
    """Derive a unit's status; a brief one has no conditions."""
    counts = Counter(str(item.life.state) for item in world.instances_of(unit.key))
    refusal = LEFT_OUT if left_out(world, unit) else unit_refusal(world, unit, now_s)
    phase, reason, message = _phase(world, unit, counts, refusal, now_s)
    instances = {state: counts[state] for state in _SHOWN}
    return UnitStatus(
        phase,
        reason,
        message,
        unit.serving.revision if unit.serving else None,
        () if brief else make_conditions(world, unit, refusal, now_s),
        instances,
        _tier(world, unit.current, counts),
        _starts(world, unit),
        refusal,
    )


def unit_refusal(world: World, unit: Wanted, now_s: float) -> str | None:
    """Return what callers are told instead of being held; None where it serves or may soon."""
    if unit.deleted:
        return f"the unit '{unit.name}' is being deleted"
    if any(item.life.state is State.READY for item in world.instances_of(unit.key)):
        return None
    return release_refusal(world, unit.key, unit.current, now_s)


def _starts(world: World, unit: Wanted) -> dict[str, int]:
    counts = world.starts.get(unit.key)
    return {str(tier): counts[tier] for tier in Tier if counts[tier]} if counts else {}


_PENDING = {
    "PullingModel": "its model is being taken in",
    "LoadingModel": "its model is being loaded",
    "StartingHost": "the host of its endpoints starts",
    "OpeningTemplate": "its tenant's template is being made",
}


def unit_pending(world: World, unit: Wanted) -> str | None:
    """Return what a unit waits for before any instance could start; None: nothing."""
    if world.has_instances(unit.key) or is_cool(world, unit.current):
        return None
    waiting = _waiting_for(world, unit.current)
    return _PENDING[waiting[0]] if waiting else None


def _phase(
    world: World, unit: Wanted, counts: Counter[str], refusal: str | None, now_s: float
) -> tuple[UnitPhase, str, str]:
    if unit.deleted:
        left = counts.total()
        return UnitPhase.DELETING, "Draining", f"{left} of its instances are still there"
    if refusal:
        return UnitPhase.FAILED, _failure(world, unit), refusal
    if unit.is_rolling:
        return (UnitPhase.UPDATING, *_rolling(world, unit, now_s))
    trouble = release_trouble(world, unit.key, unit.current)
    if trouble and not counts[State.READY]:
        return UnitPhase.FAILED, "CrashLoop", trouble
    waiting = _waiting_for(world, unit.current)
    if waiting is not None and (unit.serving is None or waiting[0] == "PullingModel"):
        return (UnitPhase.DEPLOYING, *waiting)
    if counts[State.READY]:
        return UnitPhase.READY, "Serving", f"instances that serve: {counts[State.READY]}"
    if counts[State.STARTING]:
        return UnitPhase.READY, "Starting", "an instance is starting"
    return (UnitPhase.READY, *_at_zero(world, unit, waiting))


def _at_zero(world: World, unit: Wanted, waiting: tuple[str, str] | None) -> tuple[str, str]:
    """Return how a unit that can serve is while none of its instances is there."""
    failure = world.scales.get(unit.key, ScaleState()).backoff
    if failure.failures:
        return "Retrying", f"an instance failed: {by_name(failure.reason, unit.current)}"
    if is_cool(world, unit.current):
        return "ScaledToZero", "the next request loads its model and starts an instance"
    if waiting is None:
        return "ScaledToZero", "the next request starts an instance"
    return ("Retrying", waiting[1]) if has_failed(world, unit.current) else waiting


def _rolling(world: World, unit: Wanted, now_s: float) -> tuple[str, str]:
    """Return how far a newer revision is, while the former one serves."""
    target = unit.target
    serves = f"revision {unit.current.revision} serves until then"
    problem = rollout_problem(world, unit, now_s)
    if problem:
        return "RolloutFailed", f"revision {target.revision} cannot take traffic: {problem}"
    reason, message = _waiting_for(world, target) or ("StartingRevision", "its instance starts")
    return reason, f"revision {target.revision}: {message}; {serves}"


def _failure(world: World, unit: Wanted) -> str:
    if left_out(world, unit):
        return "PlatformFull"
    if unit.current.unit is None:
        return "Unreadable"
    return "CrashLoop" if unit.current.host else "ModelUnavailable"


def _waiting_for(world: World, release: Release) -> tuple[str, str] | None:
    """Return what a revision needs before it could serve; None: nothing."""
    if release.host is None:
        return "PullingModel", release.progress or "the model is being looked up"
    host = world.hosts.get(release.host)
    if host_state(world, release) is not HostState.READY or host is None:
        reason = "StartingHost" if release.remotes else "LoadingModel"
        return reason, _waiting_for_host(world, release)
    if host.templates.get(release.tenant) is not TemplateState.READY:
        return "OpeningTemplate", _waiting_for_template(world, release)
    return None


def _waiting_for_host(world: World, release: Release) -> str:
    backoff = world.host_backoffs.get(release.host or "", Backoff())
    if backoff.failures:
        return f"the model's host failed and is tried again: {by_name(backoff.reason, release)}"
    return (
        "the host of endpoints elsewhere starts" if release.remotes else "the model is being loaded"
    )


def _waiting_for_template(world: World, release: Release) -> str:
    backoff = world.template_backoffs.get((release.host or "", release.tenant), Backoff())
    if backoff.failures:
        return f"the tenant's template failed and is tried again: {backoff.reason}"
    return "the tenant's template is being made"


def _tier(world: World, release: Release, counts: Counter[str]) -> Tier:
    if counts[State.READY]:
        return Tier.HOT
    host = world.hosts.get(release.host or "")
    if host is not None and host.templates.get(release.tenant) is TemplateState.READY:
        return Tier.WARM
    return Tier.COOL if release.host else Tier.COLD
