"""Control as a process: how it ends, and what it says when it cannot start."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from sits.store import open_store
from tests.integration.control.fakes import make_settings, short_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


def start(argument: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sits.control", argument]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def settings_json(directory: Path, parent_pid: int) -> str:
    return json.dumps(asdict(make_settings(directory)) | {"parent_pid": parent_pid})


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 15
    while not path.exists():
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_sigterm_ends_it_cleanly_and_ctrl_c_is_left_to_the_node(directory: Path) -> None:
    process = start(settings_json(directory, os.getpid()))
    wait_for(directory / "api" / "api.sock", process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert (directory / "home" / "key").exists()


def test_a_kill_leaves_a_store_that_the_next_start_opens(directory: Path) -> None:
    process = start(settings_json(directory, os.getpid()))
    wait_for(directory / "api" / "api.sock", process)
    process.kill()
    process.communicate(timeout=10)
    store = open_store(directory / "home" / "sits.db")
    assert store.next_epoch() == 2
    assert len(store.keys_in_force()) == 1
    store.close()


def test_it_does_not_run_for_another_parent(directory: Path) -> None:
    process = start(settings_json(directory, 1))
    process.communicate(timeout=10)
    assert process.returncode == 1
    assert not (directory / "home").exists()


def test_bad_settings_are_named_and_nothing_is_made(directory: Path) -> None:
    process = start('{"home": 3}')
    _, said = process.communicate(timeout=10)
    assert process.returncode == 2
    assert "settings of control cannot be read" in said
    assert "Traceback" not in said
    assert list(directory.iterdir()) == []


def test_a_store_that_cannot_be_used_is_said_in_one_line(directory: Path) -> None:
    (directory / "home").mkdir()
    (directory / "home" / "sits.db").write_bytes(b"not a database" * 100)
    process = start(settings_json(directory, os.getpid()))
    _, said = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "move it away" in said
    assert "Traceback" not in said
