"""The rules of a fork, seen from scripts of their own: pytest's process may have threads."""

import subprocess
import sys
import threading

import pytest

from sits.runtime.host import ForkRefused
from sits.runtime.host._fork import fork_child

DRAWS = """
import os, random, sys
from sits.runtime.host._fork import fork_child, reap
random.seed(7)
for _ in range(2):
    reap(fork_child(lambda: print(random.random(), flush=True)), 5.0)
print(random.random())
"""

ENDS = """
import os, signal, sys
from sits.runtime.host._fork import fork_child, reap
print(reap(fork_child(lambda: None), 5.0))
print(reap(fork_child(lambda: 1 / 0), 5.0))
print(reap(fork_child(lambda: os.kill(os.getpid(), signal.SIGSEGV)), 5.0))
print(reap(fork_child(lambda: signal.pause()), 0.0))
"""


def run(script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_process_with_two_threads_may_not_fork() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with pytest.raises(ForkRefused, match="OPENBLAS_NUM_THREADS=1"):
            fork_child(lambda: None)
    finally:
        stop.set()
        thread.join()


def test_each_child_draws_its_own_random_numbers() -> None:
    assert len(set(run(DRAWS))) == 3


def test_how_a_child_ended_is_said_in_words() -> None:
    assert run(ENDS) == ["exit status 0", "exit status 1", "killed by SIGSEGV", "killed by SIGKILL"]
