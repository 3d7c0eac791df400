"""When to try again what failed.

Failures in a row wait 0.5 s, 1, 2, 4 s; from the fifth on it is a crash loop, which waits 30 s
between tries and has a reason that callers are told instead of being held. A crash loop ends
its refusals when its next try is due, so that the next request tries again. Only health that
lasts clears the count: something that comes up and dies a second later is failing too.
"""

from dataclasses import dataclass

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
CRASH_LOOP_FAILURES = 5
HEALTHY_S = 60.0


@dataclass(frozen=True)
class Backoff:
    """Failures in a row.

    Attributes:
        failures: how many, with no lasting health between them.
        retry_at_s: when the next try may be made.
        reason: what went wrong last.
        healthy_since_s: since when it has been well again; None while it is not.
    """

    failures: int = 0
    retry_at_s: float = 0.0
    reason: str = ""
    healthy_since_s: float | None = None


def after_failure(backoff: Backoff, reason: str, now_s: float) -> Backoff:
    """Return the state after one more failure."""
    failures = backoff.failures + 1
    if failures >= CRASH_LOOP_FAILURES:
        delay_s = MAX_DELAY_S
    else:
        delay_s = FIRST_DELAY_S * 2.0 ** (failures - 1)
    return Backoff(failures, now_s + delay_s, reason)


def after_health(backoff: Backoff, *, healthy: bool, now_s: float) -> Backoff:
    """Return the state given whether it is well now; well for long enough forgets failures."""
    if not backoff.failures:
        return Backoff()
    if not healthy:
        return Backoff(backoff.failures, backoff.retry_at_s, backoff.reason)
    since_s = now_s if backoff.healthy_since_s is None else backoff.healthy_since_s
    if now_s >= since_s + HEALTHY_S:  # the same sum as in `backoff_due_s`
        return Backoff()
    return Backoff(backoff.failures, backoff.retry_at_s, backoff.reason, since_s)


def may_try(backoff: Backoff, now_s: float) -> bool:
    """Return whether a try may be made now."""
    return backoff.failures == 0 or now_s >= backoff.retry_at_s


def is_crash_looping(backoff: Backoff, now_s: float) -> bool:
    """Return whether callers are to be refused: too many failures, and no try due yet."""
    return backoff.failures >= CRASH_LOOP_FAILURES and now_s < backoff.retry_at_s


def is_failing(backoff: Backoff) -> bool:
    """Return whether it fails again and again and was not well since: also between two tries."""
    return backoff.failures >= CRASH_LOOP_FAILURES and backoff.healthy_since_s is None


def backoff_due_s(backoff: Backoff, now_s: float) -> float | None:
    """Return when the state next changes by itself: a try falls due, or health has lasted."""
    if not may_try(backoff, now_s):
        return backoff.retry_at_s
    if backoff.healthy_since_s is not None:
        return backoff.healthy_since_s + HEALTHY_S
    return None
