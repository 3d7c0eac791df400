"""What every batcher says to a request that it does not take."""

from sits._errors import SitsError


class RequestRefused(SitsError):
    """A request that was not admitted. `reason` is the wire's stable code for it."""

    code = "request_refused"

    def __init__(self, reason: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.may_retry = retryable
