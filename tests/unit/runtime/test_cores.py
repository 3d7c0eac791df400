"""A worker counts the cores that others leave it, by what the kernel counts."""

import os
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from sits.runtime.host import SpareCores
from sits.runtime.host import _cores as cores_module
from sits.runtime.host._cores import read_busy_s


class Machine:
    """Four cores, on which this process and others work as a test says."""

    def __init__(self) -> None:
        self.now_s, self.own_s, self.busy_s = 100.0, 7.0, 1000.0
        self.looks = 0
        self.cores = SpareCores(
            lambda: self.now_s, lambda: self.own_s, self.read, frozenset({0, 1, 2, 3})
        )

    def read(self, cores: Collection[int]) -> float:
        assert set(cores) == {0, 1, 2, 3}
        self.looks += 1
        return self.busy_s

    def run(self, seconds: float, own: float, others: float) -> int:
        """Let time pass, in which so many cores work on each, and count what is spare."""
        self.now_s += seconds
        self.own_s += seconds * own
        self.busy_s += seconds * (own + others)
        return self.cores.count()


@pytest.mark.parametrize(
    ("own", "others", "spare"),
    [
        (0.0, 0.0, 4),
        (4.0, 0.0, 4),
        (3.7, 0.3, 4),  # a gateway that wakes up for a moment
        (3.0, 1.0, 3),
        (1.0, 2.5, 1),
        (0.5, 3.5, 1),  # there is always one
        (2.0, -0.2, 4),  # ticks are coarse
    ],
)
def test_cores_that_others_use_are_not_spare(own: float, others: float, spare: int) -> None:
    assert Machine().run(1.0, own, others) == spare


def test_what_others_did_long_ago_is_forgotten() -> None:
    machine = Machine()
    assert machine.run(60.0, 0.0, 4.0) == 1
    assert machine.run(0.2, 1.0, 0.0) == 4


def test_it_looks_ten_times_a_second_at_most() -> None:
    machine = Machine()
    for _ in range(100):
        machine.run(0.01, 1.0, 3.0)
    assert machine.looks <= 11


def test_the_kernel_counts_what_this_process_does() -> None:
    cores = os.sched_getaffinity(0)
    busy_s, own_s = read_busy_s(cores), time.process_time()
    while time.process_time() - own_s < 0.3:
        pass
    assert read_busy_s(cores) - busy_s >= 0.2
    assert read_busy_s(()) == 0.0


def test_idle_time_and_other_cores_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  111 0 0 9 0 0 0 0 0 0\n"
        "cpu0 100 20 3 7000 5000 40 5 600 0 0\n"
        "cpu1 1 0 0 1 1 0 0 0 0 0\n"
        "cpu10 9 9 9 9 9 9 9 9 9 9\n"
        "intr 1234 0 9\n"
    )
    monkeypatch.setattr(cores_module, "_STAT", stat)
    assert read_busy_s({0}) * os.sysconf("SC_CLK_TCK") == 100 + 20 + 3 + 40 + 5 + 600
    assert read_busy_s({0, 1}) * os.sysconf("SC_CLK_TCK") == 769


def test_where_the_kernel_tells_nothing_all_cores_are_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores_module, "_STAT", tmp_path / "none")
    cores = SpareCores()
    assert cores.count() == len(os.sched_getaffinity(0))
