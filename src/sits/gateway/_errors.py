"""Every error that a caller of the gateway can see, in the form of OpenAI's API.

Tree::

    SitsError
      +-- ApiError         ends one request with a status and `{"error": {...}}`

Invariants: a message says what was given, what was expected, what to do; no message holds a
key or a prompt, and none is longer than `_MAX_MESSAGE_CHARS`, whatever it quotes; the same
failure has the same `code` as an HTTP answer and inside a stream.
"""

from collections.abc import Mapping

import msgspec

from sits._errors import SitsError
from sits.wire import Failed

Headers = list[tuple[bytes, bytes]]

# The worker's codes that say nothing about the request: another instance may do it.
RETRY_ELSEWHERE = frozenset({"instance_lost", "draining", "endpoint_lost"})

_STATUS_OF_FAILURE: Mapping[str, int] = {
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
    "invalid_request": 400,
    "wrong_endpoint": 400,
    "unsupported_dimensions": 400,
    "content_filtered": 422,
    "overloaded": 429,
    "draining": 503,
    "instance_lost": 503,
    "server_shutting_down": 503,
    "endpoint_failed": 502,
    "endpoint_lost": 502,
    "secret_missing": 503,
    "loop_detected": 508,
    "timeout": 504,
    "deadline_exceeded": 504,
    "engine_error": 500,
}
_PARAM_OF_FAILURE: Mapping[str, str] = {
    "wrong_endpoint": "model",
    "unsupported_dimensions": "dimensions",
}
_TYPE_OF_STATUS: Mapping[int, str] = {
    429: "rate_limit_error",
}
_RETRY_AFTER_S: Mapping[int, int] = {429: 1, 503: 1}


class _Body(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class _Envelope(msgspec.Struct, frozen=True):
    error: _Body


_MAX_MESSAGE_CHARS = 2000

_encode = msgspec.json.Encoder().encode


class ApiError(SitsError):
    """Ends one request.

    Args:
        status: the HTTP status.
        code: stable, for programs.
        message: for people.
        param: the request's field that is at fault, if one is.
        headers: sent besides the usual ones.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Headers | None = None,
    ) -> None:
        self.message = shorten(message, _MAX_MESSAGE_CHARS)
        super().__init__(self.message)
        self.status = status
        self.error_code = code
        self.param = None if param is None else shorten(param)
        self._headers = headers or []

    @property
    def body(self) -> bytes:
        """The JSON document of this error."""
        kind = _TYPE_OF_STATUS.get(self.status)
        if kind is None:
            kind = "invalid_request_error" if self.status < 500 else "server_error"
        return _encode(_Envelope(_Body(self.message, kind, self.param, self.error_code)))

    @property
    def headers(self) -> Headers:
        """The headers that go with it, `Retry-After` where trying again helps."""
        headers = [(b"content-type", b"application/json"), *self._headers]
        retry_after_s = _RETRY_AFTER_S.get(self.status)
        if retry_after_s is not None:
            headers.append((b"retry-after", str(retry_after_s).encode()))
        return headers

    @property
    def event(self) -> bytes:
        """The event that ends a stream which had begun; no `[DONE]` follows it."""
        return b"data: " + self.body + b"\n\n"


def shorten(text: str, limit: int = 80) -> str:
    """Return a text that a message may quote: what a caller chose may be of any length."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def invalid(param: str | None, message: str, code: str = "invalid_value") -> ApiError:
    """Return a 400 for a request's field."""
    return ApiError(400, code, message, param=param)


def from_failure(failed: Failed) -> ApiError:
    """Return what a caller is told when a worker could not finish a request."""
    return ApiError(
        _STATUS_OF_FAILURE.get(failed.code, 500),
        failed.code,
        failed.message,
        param=_PARAM_OF_FAILURE.get(failed.code),
    )


def shutting_down() -> ApiError:
    """Return what a request is told that the end of the gateway cuts off."""
    return ApiError(
        503,
        "server_shutting_down",
        "the gateway is shutting down; send the request again",
        headers=[(b"connection", b"close")],
    )
