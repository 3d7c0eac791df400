"""One at a time for each digest, across processes.

The kernel lets go of the lock when its holder ends, however it ends, so there is no lock to
clean up after a kill.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_LOOK_S = 0.1


@contextlib.contextmanager
def hold(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock; wait for it as long as somebody else has it.

    Args:
        path: the lock's file, made when it is missing.
        on_wait: is called each tenth of a second while waiting; what it raises ends the wait.
    """
    descriptor = _try_lock(path)
    while descriptor is None:
        on_wait()
        time.sleep(_LOOK_S)
        descriptor = _try_lock(path)
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_nowait(path: Path) -> Iterator[bool]:
    """Hold a lock if nobody else does; yields whether it is held."""
    descriptor = _try_lock(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever collects garbage removes lock files too: one that has no name any more guards
        # nothing.
        if os.fstat(descriptor).st_nlink > 0:
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
