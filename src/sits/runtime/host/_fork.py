"""The rules under which a process of this package forks.

Before: exactly one thread (a lock held by another would stay locked in the child for ever), no
database handle, no TLS session; the collector's generations are frozen, so that the child's
collections do not touch, and so copy, the parent's pages. After: the child dies with its parent,
draws its own random numbers, and never returns into its parent's frames.
"""

import gc
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable

from sits._errors import SitsError
from sits._process import die_with_parent, thread_count

_POLL_S = 0.002
OUT_OF_MEMORY = 77
"""The exit status of a process that was refused memory."""


class ForkRefused(SitsError):
    """This process may not fork now; the message says why."""

    code = "fork_refused"


def fork_child(body: Callable[[], None]) -> int:
    """Fork; run `body` in the child and end it; return the child's process id in the parent.

    Args:
        body: all that the child does. It closes what it inherited. When it returns, the child
            ends with status 0; when it raises, with a traceback on stderr and status 1.

    Raises:
        ForkRefused: this process has more than one thread.
        OSError: the kernel gives no process.
    """
    threads = thread_count()
    if threads != 1:
        raise ForkRefused(
            f"this process has {threads} threads and a fork is safe from one only; start it with "
            "OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1 in its environment"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    parent_pid = os.getpid()
    child_pid = os.fork()
    if child_pid:
        return child_pid
    status = 1
    try:
        die_with_parent(parent_pid)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        random.seed()
        body()
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    except BaseException:  # noqa: BLE001 - a task root: nothing may return into the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def reap(child_pid: int, grace_s: float = 0.0) -> str:
    """Collect a child whose link has closed and say in words how it ended.

    Args:
        child_pid: a child of this process that was not collected yet.
        grace_s: how long it may take to end by itself before it is killed.
    """
    until = time.monotonic() + grace_s
    while (ended := os.waitpid(child_pid, os.WNOHANG))[0] == 0:
        if time.monotonic() >= until:
            os.kill(child_pid, signal.SIGKILL)
            ended = os.waitpid(child_pid, 0)
            break
        time.sleep(_POLL_S)
    status = ended[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == OUT_OF_MEMORY:
        return "out of memory: it needed more than its limit"
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit status {os.WEXITSTATUS(status)}"
