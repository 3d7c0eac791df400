"""Which of an instance's endpoints are asked, and in which order.

An endpoint that failed is left out for a while (`sits.policy` says how long), so that not every
request waits for a dead one. Where all of them are left out, those that have not failed too
often in a row are asked all the same: an answer may still come, and a refusal is none.
"""

import dataclasses
import logging
from collections.abc import Sequence

from sits.policy import Backoff, after_failure, is_crash_looping, may_try
from sits.runtime.remote._errors import EndpointDown
from sits.wire import RemoteEndpoint

_log = logging.getLogger(__name__)
# What an endpoint asks for is believed up to here.
_MAX_RETRY_AFTER_S = 60.0


class EndpointBoard:
    """The state of one instance's endpoints.

    Args:
        endpoints: in the order in which they are tried.
    """

    def __init__(self, endpoints: Sequence[RemoteEndpoint]) -> None:
        self._endpoints = tuple(endpoints)
        self._backoffs = [Backoff() for _ in endpoints]
        self._failed_s = [float("-inf") for _ in endpoints]

    def order(self, now_s: float) -> list[int]:
        """Return the places of the endpoints to try now, first to last; perhaps none."""
        places = range(len(self._endpoints))
        ready = [place for place in places if may_try(self._backoffs[place], now_s)]
        if ready:
            return ready
        failing = [p for p in places if not is_crash_looping(self._backoffs[p], now_s)]
        return sorted(failing, key=lambda place: self._backoffs[place].retry_at_s)

    def reasons(self) -> str:
        """Return why each endpoint that fails does."""
        return "; ".join(
            f"{endpoint.url}: {backoff.reason}"
            for endpoint, backoff in zip(self._endpoints, self._backoffs, strict=True)
            if backoff.failures
        )

    def succeeded(self, place: int) -> None:
        """An endpoint has answered."""
        if self._backoffs[place].failures:
            _log.info("event=endpoint_well url=%s", self._endpoints[place].url)
        self._backoffs[place] = Backoff()

    def failed(self, place: int, down: EndpointDown, *, began_s: float, now_s: float) -> None:
        """An endpoint could not.

        Calls that ran side by side and met the same fault are one failure: one that began before
        the last failure was known says nothing new.
        """
        if began_s <= self._failed_s[place]:
            return
        self._failed_s[place] = now_s
        backoff = after_failure(self._backoffs[place], str(down), now_s)
        asked_s = now_s + min(down.retry_after_s, _MAX_RETRY_AFTER_S)
        self._backoffs[place] = dataclasses.replace(
            backoff, retry_at_s=max(backoff.retry_at_s, asked_s)
        )
        _log.warning(
            "event=endpoint_failed url=%s failures=%d left_out_s=%.1f reason=%r",
            self._endpoints[place].url,
            backoff.failures,
            self._backoffs[place].retry_at_s - now_s,
            str(down),
        )
