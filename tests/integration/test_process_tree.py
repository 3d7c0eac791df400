"""A process that outlives its parent nowhere, also where the kernel does not see to it."""

import os
import subprocess
import sys

from sits._process import thread_count
from tests.links import wait_for
from tests.processes import is_running

PARENT = """
import subprocess, sys, time
child = "import os, sys, time; from sits._process import {call}; {call}(os.getppid()); {rest}"
child += "print(os.getpid(), flush=True); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", child])
time.sleep(60)
"""


def orphan_ends(call: str) -> None:
    script = PARENT.replace("{call}", call).replace("{rest}", "")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
        wait_for(lambda: not is_running(child), f"{call}: the child was orphaned", within_s=2.0)


def test_the_kernel_ends_a_child_with_its_parent() -> None:
    orphan_ends("die_with_parent")


def test_where_the_kernel_does_not_the_child_looks_for_itself() -> None:
    orphan_ends("watch_parent")


def test_threads_are_counted() -> None:
    assert thread_count() == len(os.listdir("/proc/self/task"))
