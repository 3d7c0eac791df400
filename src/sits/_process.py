"""What every process of the tree does first, so that none outlives its parent.

Linux only has the strong form (`PR_SET_PDEATHSIG`); elsewhere the parent check alone
remains, and the reader loops notice the closed socket.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends; exit now if it already has.

    The parent check closes the gap between the fork or exec and this call.

    Args:
        parent_pid: the process id that `os.getppid` must give.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"prctl(PR_SET_PDEATHSIG): {os.strerror(code)}")
    if os.getppid() != parent_pid:
        os._exit(1)


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
