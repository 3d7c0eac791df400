"""The errors of `models`.

Tree::

    SitsError
      +-- ModelError             a reference names no model that can be run here
            +-- ModelUnavailable     not now: the hub is away, busy, or what it sent broke off
            +-- ModelStoreFull       the disk of the store has no room for it
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sits._errors import SitsError


class ModelError(SitsError):
    """A model cannot be used; the message says what can."""

    code = "model_unavailable"
    http_status = 422


class ModelUnavailable(ModelError):
    """A model cannot be had now; a later try may do better.

    Attributes:
        retry_after_s: when the hub said to come back; None: it did not say.
    """

    code = "model_source_unavailable"
    retryable = True
    http_status = 503

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelStoreFull(ModelError):
    """The store's disk is full; nothing half-written is left where it could be used."""

    code = "model_store_full"
    retryable = True
    http_status = 507


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Return whether an error of the system says that there is no room."""
    return error.errno in _FULL


@contextmanager
def store_errors(root: Path) -> Iterator[None]:
    """Turn the system's errors on the store's files into errors of this package.

    Raises:
        ModelStoreFull: there is no room.
        ModelUnavailable: the store cannot be read or written.
    """
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise ModelStoreFull(
                f"the disk of the model store {root} is full; free some room, or remove models: "
                "`sits models gc` takes what no unit needs"
            ) from error
        raise ModelUnavailable(
            f"the model store {root} cannot be used: {error.strerror or error} "
            f"({error.filename or 'no file named'}); it has to be a directory of this user"
        ) from error
