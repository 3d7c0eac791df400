"""What keeps a revision from serving. Pure."""

from collections.abc import Iterator

from sits.control._lifecycle import HostState
from sits.control._wanted import Release, UnitKey, Wanted
from sits.control._world import World
from sits.policy import MAX_DELAY_S, Backoff, is_crash_looping, is_failing

_NONE = Backoff()


def left_out(world: World, unit: Wanted) -> bool:
    """Return whether gateways could not be told of a unit beside all others."""
    return unit.key in world.left_out and not unit.deleted


def host_state(world: World, release: Release) -> HostState | None:
    """Return where a revision's host is in its life; None: there is none."""
    host = world.hosts.get(release.host or "")
    return host.life.state if host else None


def is_cool(world: World, release: Release) -> bool:
    """Return whether a revision's template was let go of: nothing is made until a request comes."""
    use = world.template_uses.get(release.place) if release.place else None
    return use is not None and use.cooled


def has_failed(world: World, release: Release) -> bool:
    """Return whether a revision's host or template has failed, and was not well for long since."""
    if release.place is None:
        return False
    backoffs = world.host_backoffs.get(release.place[0]), world.template_backoffs.get(release.place)
    return any(backoff.failures for backoff in backoffs if backoff is not None)


def release_refusal(
    world: World, key: UnitKey, release: Release, now_s: float, *, is_canary: bool = False
) -> str | None:
    """Return why requests to a revision are refused; None where it serves, or may soon.

    Args:
        world: what is observed.
        key: the unit.
        release: one of its revisions.
        now_s: the monotonic time now.
        is_canary: it takes no traffic yet, so its instances' failures are counted apart.
    """
    if release.problem:
        return release.problem
    for what, backoff in _failures(world, key, release, is_canary=is_canary):
        if is_crash_looping(backoff, now_s):
            return _words(what, backoff, release)
    return None


def release_trouble(
    world: World, key: UnitKey, release: Release, *, is_canary: bool = False
) -> str | None:
    """Return what fails again and again; None where nothing does.

    Between two tries it may be that requests are let through once more; it is no better for that.
    """
    for what, backoff in _failures(world, key, release, is_canary=is_canary):
        if is_failing(backoff):
            return _words(what, backoff, release)
    return None


def rollout_problem(world: World, unit: Wanted, now_s: float) -> str | None:
    """Return why a unit's newest revision does not take traffic, and may not soon."""
    target, rolling = unit.target, unit.is_rolling
    if unit.failed is not None and unit.failed.revision == target.revision:
        return f"no instance of it came up, so the former one serves: {unit.failed.message}"
    return release_refusal(world, unit.key, target, now_s, is_canary=rolling) or release_trouble(
        world, unit.key, target, is_canary=rolling
    )


def _failures(
    world: World, key: UnitKey, release: Release, *, is_canary: bool
) -> Iterator[tuple[str, Backoff]]:
    if release.host is None:
        return
    if is_canary:
        own = world.canary_backoffs.get(key, _NONE)
    else:
        scale = world.scales.get(key)
        own = scale.backoff if scale else _NONE
    host = world.host_backoffs.get(release.host, _NONE)
    template = world.template_backoffs.get((release.host, release.tenant), _NONE)
    if own.failures or host.failures or template.failures:  # for nearly all, always, none has
        yield "its instances keep failing", own
        yield "its model's host keeps failing", host
        yield "its tenant's template keeps failing", template


def _words(what: str, backoff: Backoff, release: Release) -> str:
    return (
        f"{what} ({backoff.failures} times in a row; tried again every {MAX_DELAY_S:.0f} s, or at "
        f"once when it is deployed again): {by_name(backoff.reason, release)}"
    )


def by_name(text: str, release: Release) -> str:
    """Return a message in which files are called what the unit calls the model, or an adapter."""
    if release.model is None or release.unit is None:
        return text
    for adapter, pin in zip(release.adapters, release.adapter_pins, strict=False):
        text = text.replace(adapter.path, pin.reference)
    return text.replace(str(release.model.path), str(release.unit.model))
