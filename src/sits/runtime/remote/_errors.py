"""What can go wrong with an endpoint, and who has to know.

Tree::

    SitsError
      +-- SecretError          a secret that is not there, or that others can read
      +-- EndpointError
            +-- EndpointDown       this endpoint cannot: another may
            +-- CallerFault        any endpoint would refuse this request

Invariant: no message holds a secret, whatever an endpoint has answered.
"""

from sits._errors import SitsError


class SecretError(SitsError):
    """A secret cannot be used; the message says what to do."""

    code = "secret_missing"


class EndpointError(SitsError):
    """A call of an endpoint did not end well."""

    code = "endpoint_failed"


class EndpointDown(EndpointError):
    """The endpoint cannot answer now.

    Attributes:
        throttled: it said that there is too much (429).
        retry_after_s: when it said that it may be asked again; 0: it did not say.
    """

    def __init__(
        self, message: str, *, throttled: bool = False, retry_after_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.throttled = throttled
        self.retry_after_s = retry_after_s


class CallerFault(EndpointError):
    """The request itself is refused. `reason` is the wire's stable code for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
