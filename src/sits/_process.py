"""What every process of the tree does first, so that none outlives its parent.

Linux has the strong form: the kernel ends the child (`PR_SET_PDEATHSIG`). Elsewhere a thread of
the child looks whether its parent is still there; what forks has one thread only, so there a
host is resident.
"""

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_LOOK_S = 0.5


def die_with_parent(parent_pid: int) -> None:
    """Have this process end when its parent does; exit now if it already has.

    The parent check closes the gap between the fork or exec and this call.

    Args:
        parent_pid: the process id that `os.getppid` must give.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"prctl(PR_SET_PDEATHSIG): {os.strerror(code)}")
    else:
        watch_parent(parent_pid)
    if os.getppid() != parent_pid:
        os._exit(1)


def watch_parent(parent_pid: int) -> None:
    """Look twice a second, in a thread, whether the parent is there; exit when it is not."""

    def look() -> None:
        while os.getppid() == parent_pid:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=look, name="parent-watch", daemon=True).start()


def set_process_name(name: str) -> None:
    """Name this process for `ps` and `top` (the first 15 bytes; Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def thread_count() -> int:
    """Return how many kernel threads this process has (1 where /proc is not there)."""
    try:
        return len(os.listdir("/proc/self/task"))
    except FileNotFoundError:
        return 1
