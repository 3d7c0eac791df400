"""Until when a caller wants an answer, if it says so: `X-SITS-Timeout-Ms`. Pure but for a clock.

It counts from the request's arrival at the gateway: what its body, the queue, a start and a
takeover take is part of it. The instance is told what is left, and the gateway ends the request
itself too, since an instance may be stopped or stuck.
"""

import math
from dataclasses import dataclass

from sits.gateway._errors import ApiError, invalid

TIMEOUT_HEADER = "x-sits-timeout-ms"

_NAME = TIMEOUT_HEADER.encode("ascii")
_MAX_TIMEOUT_MS = 24 * 3600 * 1000
_MAX_DIGITS = len(str(_MAX_TIMEOUT_MS))


@dataclass(frozen=True)
class Deadline:
    """When a request's time is over.

    Attributes:
        at_s: by the clock that `started_s` was read from; infinite where there is no limit.
        timeout_ms: what was asked for; None: nothing.
    """

    at_s: float = math.inf
    timeout_ms: int | None = None

    def left_s(self, now_s: float) -> float:
        """Return how many seconds are left; 0 when there are none."""
        return max(0.0, self.at_s - now_s)

    def left_ms(self, now_s: float) -> int | None:
        """Return what an instance may still take, at least 1 ms; None: there is no limit."""
        return None if self.timeout_ms is None else max(1, int(self.left_s(now_s) * 1000))

    def error(self) -> ApiError:
        """Return what a caller is told whose time is over."""
        return ApiError(
            504,
            "deadline_exceeded",
            f"the answer was not whole after {self.timeout_ms} ms, which is what the request's "
            "X-SITS-Timeout-Ms allows; allow more, or ask for less (max_tokens)",
        )


def read_deadline(headers: list[tuple[bytes, bytes]], started_s: float) -> Deadline:
    """Read a request's deadline.

    Args:
        headers: the request's.
        started_s: when it came.

    Raises:
        ApiError: the header's value is not a number of milliseconds that can be kept.
    """
    for name, value in headers:
        if name == _NAME:
            timeout_ms = int(value) if value.isdigit() and len(value) <= _MAX_DIGITS else 0
            if not 1 <= timeout_ms <= _MAX_TIMEOUT_MS:
                raise _wrong(value)
            return Deadline(started_s + timeout_ms / 1000, timeout_ms)
    return Deadline()


def _wrong(value: bytes) -> ApiError:
    return invalid(
        TIMEOUT_HEADER,
        f"the header X-SITS-Timeout-Ms is {value[:40].decode('latin-1')!r}; expected a whole "
        f"number of milliseconds from 1 to {_MAX_TIMEOUT_MS}",
    )
