"""One request as the gateway sees it, from its first byte to its log line.

Invariants: no prompt, no answer, no key and no query string is ever part of it; what a
client chose (its id, the path) is bounded and of harmless characters before it is logged.
"""

import logging
import re
import secrets
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from sits.wire import HOPS_HEADER, Usage

log = logging.getLogger("sits.gateway.requests")

EXCHANGE = "sits.exchange"
"""Where a request's `Exchange` is in its ASGI scope."""

# What nginx logs for a client that closed before its answer.
CLIENT_CLOSED = 499

_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_MAX_PATH_CHARS = 200
_HOPS_NAME = HOPS_HEADER.encode("ascii")
# Enough of a number to know that it is too high, however long it is.
_HOPS_DIGITS = 9


@dataclass(slots=True)
class Exchange:
    """What is known of a request so far.

    Attributes:
        request_id: its one id, in the response, the logs and (with a suffix) at the worker.
        method: the HTTP method.
        path: the path as it was sent, percent-encoded.
        started_s: when it came, by the monotonic clock.
        hops: how often a unit whose model is elsewhere passed it on, as it says itself.
        tenant: whose key it has; empty before that is known.
        status: of the response; 0 before it began.
        unit: the unit it asks for.
        tier: how warm the instance was.
        first_piece_s: when the first piece came from the worker.
        tokens: how many tokens were made for it; of vectors, how many were read.
        usage: what it took, once its answer is whole.
        error: the code of the error that it ended with.
    """

    request_id: str
    method: str
    path: str
    started_s: float
    hops: int = 0
    tenant: str = ""
    status: int = 0
    unit: str = ""
    tier: str = ""
    first_piece_s: float = 0.0
    tokens: int = 0
    usage: Usage | None = None
    error: str = ""

    @property
    def outcome(self) -> int:
        """The response's status, `CLIENT_CLOSED` where there is none."""
        return self.status or CLIENT_CLOSED

    def log_end(self, now_s: float) -> None:
        """Write the request's one line."""
        if not log.isEnabledFor(logging.INFO):
            return
        parts = [f"event=request id={self.request_id} method={self.method} path={self.path}"]
        parts.append(f"status={self.outcome}")
        for name in ("tenant", "unit", "tier", "error"):
            value = getattr(self, name)
            if value:
                parts.append(f"{name}={value}")
        if self.first_piece_s:
            ttft_ms = (self.first_piece_s - self.started_s) * 1000
            parts.append(f"ttft_ms={ttft_ms:.1f} tokens={self.tokens}")
        parts.append(f"duration_ms={(now_s - self.started_s) * 1000:.1f}")
        log.info(" ".join(parts))


def open_exchange(
    scope: MutableMapping[str, Any], clock: Callable[[], float] = time.monotonic
) -> Exchange:
    """Make a request's record from its ASGI scope."""
    raw_path = scope.get("raw_path") or scope["path"].encode("utf-8", "backslashreplace")
    path = re.sub(r"[^!-~]", "?", raw_path[:_MAX_PATH_CHARS].decode("latin-1"))
    headers = scope["headers"]
    return Exchange(_request_id(headers), scope["method"], path, clock(), _hops(headers))


def _request_id(headers: list[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            return value.decode("ascii")
    return f"req-{secrets.token_hex(12)}"


def _hops(headers: list[tuple[bytes, bytes]]) -> int:
    for name, value in headers:
        if name == _HOPS_NAME and value.isdigit():
            return int(value[:_HOPS_DIGITS])
    return 0
