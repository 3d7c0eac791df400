"""What people and callers are told about a unit, from what is wanted and what is. Pure."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from sits.control._lifecycle import HostState, State
from sits.control._plan import Wanted
from sits.control._room import LEFT_OUT
from sits.control._world import TemplateState, World
from sits.policy import MAX_DELAY_S, Backoff, ScaleState, is_crash_looping
from sits.wire import Tier


class UnitPhase(StrEnum):
    """A unit in one word."""

    DEPLOYING = "Deploying"
    READY = "Ready"
    FAILED = "Failed"
    DELETING = "Deleting"


@dataclass(frozen=True)
class UnitStatus:
    """A unit's state.

    Attributes:
        reason: one word for scripts.
        message: the same for people, with what to do where something is to be done.
        instances: how many are in each state of their life.
        tier: how warm the next request's start would be.
        refusal: what callers are told instead of being held; None: they are served or held.
    """

    phase: UnitPhase
    reason: str
    message: str
    instances: dict[str, int]
    tier: Tier
    refusal: str | None = None


def unit_status(world: World, unit: Wanted, now_s: float) -> UnitStatus:
    """Derive a unit's status."""
    counts = Counter(str(item.life.state) for item in world.instances_of(unit.key))
    refusal = LEFT_OUT if _is_left_out(world, unit) else unit_refusal(world, unit, now_s)
    phase, reason, message = _phase(world, unit, counts, refusal)
    instances = {str(state): counts[state] for state in State if state is not State.GONE}
    tier = _tier(world, unit, counts)
    return UnitStatus(phase, reason, message, instances, tier, refusal)


def unit_refusal(world: World, unit: Wanted, now_s: float) -> str | None:
    """Return what callers are told instead of being held; None where it serves or may soon."""
    if any(item.life.state is State.READY for item in world.instances_of(unit.key)):
        return None
    return _refusal(world, unit, now_s)


def _is_left_out(world: World, unit: Wanted) -> bool:
    return unit.key in world.left_out and not unit.deleted


def _phase(
    world: World, unit: Wanted, counts: Counter[str], refusal: str | None
) -> tuple[UnitPhase, str, str]:
    if unit.deleted:
        left = counts.total()
        return UnitPhase.DELETING, "Draining", f"{left} of its instances are still there"
    if refusal:
        return UnitPhase.FAILED, _failure(world, unit), refusal
    host = world.hosts.get(unit.host or "")
    if host is None or host.life.state is not HostState.READY:
        return UnitPhase.DEPLOYING, "LoadingModel", _waiting_for_host(world, unit)
    if host.templates.get(unit.tenant) is not TemplateState.READY:
        return UnitPhase.DEPLOYING, "OpeningTemplate", _waiting_for_template(world, unit)
    if counts[State.READY]:
        return UnitPhase.READY, "Serving", f"{counts[State.READY]} of its instances serve"
    if counts[State.STARTING]:
        return UnitPhase.READY, "Starting", "an instance is starting"
    failure = world.scales.get(unit.key, ScaleState()).backoff
    if failure.failures:
        return UnitPhase.READY, "Retrying", f"an instance failed: {failure.reason}"
    return UnitPhase.READY, "ScaledToZero", "the next request starts an instance"


def _failure(world: World, unit: Wanted) -> str:
    if _is_left_out(world, unit):
        return "PlatformFull"
    if unit.unit is None:
        return "Unreadable"
    return "CrashLoop" if unit.model else "ModelUnavailable"


def _waiting_for_host(world: World, unit: Wanted) -> str:
    backoff = world.host_backoffs.get(unit.host or "", Backoff())
    if backoff.failures:
        return f"the model's host failed and is tried again: {backoff.reason}"
    return "the model is being loaded"


def _waiting_for_template(world: World, unit: Wanted) -> str:
    backoff = world.template_backoffs.get((unit.host or "", unit.tenant), Backoff())
    if backoff.failures:
        return f"the tenant's template failed and is tried again: {backoff.reason}"
    return "the tenant's template is being made"


def _refusal(world: World, unit: Wanted, now_s: float) -> str | None:
    if unit.deleted:
        return f"the unit '{unit.name}' is being deleted"
    if unit.host is None:
        return unit.problem or "its model is not available"
    crashes = {
        "its instances keep failing": world.scales.get(unit.key, ScaleState()).backoff,
        "its model's host keeps failing": world.host_backoffs.get(unit.host, Backoff()),
        "its tenant's template keeps failing": world.template_backoffs.get(
            (unit.host, unit.tenant), Backoff()
        ),
    }
    for what, backoff in crashes.items():
        if is_crash_looping(backoff, now_s):
            return (
                f"{what} ({backoff.failures} times in a row; tried again every "
                f"{MAX_DELAY_S:.0f} s, or at once when it is deployed again): {backoff.reason}"
            )
    return None


def _tier(world: World, unit: Wanted, counts: Counter[str]) -> Tier:
    if counts[State.READY]:
        return Tier.HOT
    host = world.hosts.get(unit.host or "")
    if host is not None and host.templates.get(unit.tenant) is TemplateState.READY:
        return Tier.WARM
    return Tier.COOL if unit.model else Tier.COLD
