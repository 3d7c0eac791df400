"""What keeps a revision from serving. Pure."""

from sits.control._lifecycle import HostState
from sits.control._wanted import Release, UnitKey, Wanted
from sits.control._world import World
from sits.policy import MAX_DELAY_S, Backoff, is_crash_looping

_NONE = Backoff()


def left_out(world: World, unit: Wanted) -> bool:
    """Return whether gateways could not be told of a unit beside all others."""
    return unit.key in world.left_out and not unit.deleted


def host_state(world: World, release: Release) -> HostState | None:
    """Return where a revision's host is in its life; None: there is none."""
    host = world.hosts.get(release.host or "")
    return host.life.state if host else None


def release_refusal(
    world: World, key: UnitKey, release: Release, now_s: float, *, is_canary: bool = False
) -> str | None:
    """Return why a revision cannot serve; None where it can, or may soon.

    Args:
        world: what is observed.
        key: the unit.
        release: one of its revisions.
        now_s: the monotonic time now.
        is_canary: it takes no traffic yet, so its instances' failures are counted apart.
    """
    if release.problem:
        return release.problem
    if release.host is None:
        return None
    if is_canary:
        own = world.canary_backoffs.get(key, _NONE)
    else:
        scale = world.scales.get(key)
        own = scale.backoff if scale else _NONE
    host = world.host_backoffs.get(release.host, _NONE)
    template = world.template_backoffs.get((release.host, release.tenant), _NONE)
    if not (own.failures or host.failures or template.failures):
        return None  # as for nearly all, always
    crashes = {
        "its instances keep failing": own,
        "its model's host keeps failing": host,
        "its tenant's template keeps failing": template,
    }
    for what, backoff in crashes.items():
        if is_crash_looping(backoff, now_s):
            return (
                f"{what} ({backoff.failures} times in a row; tried again every "
                f"{MAX_DELAY_S:.0f} s, or at once when it is deployed again): {backoff.reason}"
            )
    return None
