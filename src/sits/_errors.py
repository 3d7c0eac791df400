"""The root of every error that SITS raises on purpose.

Tree (each package draws its own below this one)::

    SitsError
      +-- spec.SpecError, wire.WireError, runtime.EngineError, ...

A message says what was given, what was expected, and what to do. `code` is stable: clients
and scripts may compare it; messages may change.
"""

from typing import ClassVar


class SitsError(Exception):
    """An error with a stable code, a hint whether trying again helps, and an HTTP status."""

    code: ClassVar[str] = "internal_error"
    retryable: ClassVar[bool] = False
    http_status: ClassVar[int] = 500
