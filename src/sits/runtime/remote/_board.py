"""Which of an instance's endpoints are asked, and in which order.

An endpoint that failed is left out for a while (`sits.policy` says how long), so that not every
request waits for a dead one. Where all of them are left out, those that have not failed too
often in a row are asked all the same, and each other one every two seconds: an answer may still
come, and a refusal is none. One whose key is missing is never asked: without it, it would count
as failed.
"""

import dataclasses
import logging
from collections.abc import Sequence

from sits.policy import Backoff, after_failure, is_crash_looping, may_try
from sits.runtime.remote._errors import EndpointDown
from sits.wire import RemoteEndpoint

_log = logging.getLogger(__name__)
# How long no request tries an endpoint that failed too often, where there is no other.
_PROBE_S = 2.0
# What an endpoint asks for is believed up to here.
_MAX_RETRY_AFTER_S = 60.0
# A missing key is looked for with each request, and must not fill the log.
_TELL_EVERY_S = 60.0


class EndpointBoard:
    """The state of one instance's endpoints.

    Args:
        endpoints: in the order in which they are tried.
        whose: the words `tenant=… unit=…`, for lines of the log.
    """

    def __init__(self, endpoints: Sequence[RemoteEndpoint], whose: str = "") -> None:
        self._endpoints = tuple(endpoints)
        # An address is a unit's text: as one word it can bring no other field into a line.
        self._words = [f"{whose} url={'%20'.join(each.url.split())}" for each in endpoints]
        self._backoffs = [Backoff() for _ in endpoints]
        self._failed_s = [float("-inf") for _ in endpoints]
        self._keyless = ["" for _ in endpoints]
        self._told_s = [float("-inf") for _ in endpoints]

    def lacks_all_keys(self) -> bool:
        """Return whether no endpoint has the key that it needs."""
        return all(self._keyless)

    def order(self, now_s: float) -> list[int]:
        """Return the places of the endpoints to try now, first to last; perhaps none."""
        places = [place for place, missing in enumerate(self._keyless) if not missing]
        ready = [place for place in places if may_try(self._backoffs[place], now_s)]
        if ready:
            return ready
        failing = [
            place
            for place in places
            if not is_crash_looping(self._backoffs[place], now_s)
            or now_s - self._failed_s[place] >= _PROBE_S
        ]
        return sorted(failing, key=lambda place: self._backoffs[place].retry_at_s)

    def reasons(self) -> str:
        """Return why each endpoint that fails, or lacks its key, does."""
        states = zip(self._endpoints, self._keyless, self._backoffs, strict=True)
        return "; ".join(
            f"{endpoint.url}: {missing or backoff.reason}"
            for endpoint, missing, backoff in states
            if missing or backoff.failures
        )

    def note_key(self, place: int, missing: str, now_s: float) -> None:
        """Take note of whether an endpoint has its key.

        Args:
            place: the endpoint's.
            missing: why its key cannot be had; empty: it has it, or needs none.
            now_s: a monotonic clock's seconds.
        """
        known, self._keyless[place] = self._keyless[place], missing
        words = self._words[place]
        if not missing:
            if known:
                _log.info("event=endpoint_has_key %s", words)
        elif missing != known or now_s - self._told_s[place] >= _TELL_EVERY_S:
            self._told_s[place] = now_s
            _log.warning("event=endpoint_without_key %s reason=%r", words, missing)

    def succeeded(self, place: int) -> None:
        """An endpoint has answered."""
        if self._backoffs[place].failures:
            _log.info("event=endpoint_well %s", self._words[place])
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
            "event=endpoint_failed %s failures=%d left_out_s=%.1f reason=%r",
            self._words[place],
            backoff.failures,
            self._backoffs[place].retry_at_s - now_s,
            str(down),
        )
