"""Who goes on, and who is stuck."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sits.runtime.engine import EngineError
from sits.runtime.host._board import Board, Glance
from sits.runtime.host._watch import Watch, is_stopped

WORKING, WAITING = True, False


def looks(glances: list[Glance], *, stopped: bool = False, step_s: float = 0.5) -> str:
    """Return what is said of a worker that is looked at every half second."""
    watch, now_s = Watch(), 0.0
    for glance in glances:
        said = watch.look({"w": (glance, stopped)}, now_s)
        if said:
            return said["w"]
        now_s += step_s
    return ""


def test_who_makes_turns_or_waits_is_left_alone() -> None:
    assert looks([Glance(WORKING, turn, 0) for turn in range(100)]) == ""
    assert looks([Glance(WAITING, 5, 0)] * 100) == ""


def test_who_works_and_makes_no_turn_is_stuck_after_seconds() -> None:
    assert looks([Glance(WORKING, 5, 0)] * 20) == ""
    assert "no progress for 10.0 s" in looks([Glance(WORKING, 5, 0)] * 22)


def test_long_steps_are_waited_for() -> None:
    assert looks([Glance(WORKING, 5, 2_000_000)] * 40) == ""
    assert "no progress for 20.0 s" in looks([Glance(WORKING, 5, 2_000_000)] * 42)


def test_who_was_stopped_is_found_also_when_it_waits() -> None:
    assert "stopped" in looks([Glance(WAITING, 5, 0)] * 4, stopped=True)


def test_time_in_which_nobody_looked_counts_little() -> None:
    assert looks([Glance(WORKING, 5, 0)] * 3, step_s=3600.0) == ""


def test_a_stopped_process_is_seen() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        until = time.monotonic() + 5
        while not is_stopped(process.pid):
            assert time.monotonic() < until
        process.kill()
    assert not is_stopped(process.pid)


def test_a_worker_alone_has_all_cores_and_with_another_one(tmp_path: Path) -> None:
    board = Board(str(tmp_path / "board"))
    one, two = board.take(), Board(str(tmp_path / "board")).take()
    one.note(awake=True, longest_us=5.0)
    assert one.threads() == len(os.sched_getaffinity(0))
    two.note(awake=True)
    assert (one.threads(), two.threads()) == (1, 1)
    two.note(awake=False)
    assert one.threads() == len(os.sched_getaffinity(0))
    assert one.glance() == Glance(True, 1, 5)
    one.give_back()
    assert board.awake() == 0


def test_a_board_has_an_end_and_seats_of_the_dead_are_given_again(tmp_path: Path) -> None:
    board = Board(str(tmp_path / "board"))
    seats = [board.take() for _ in range(256)]
    with pytest.raises(EngineError, match="256"):
        board.take()
    seats[3].give_back()
    board.take()
