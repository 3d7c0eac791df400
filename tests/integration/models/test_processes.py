"""Several processes and one file: one download, whoever is killed, with flat memory."""

import hashlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sits.models import HubSettings, ModelPin, ModelStore
from sits.spec import parse_model_reference
from sits.testing import FakeHub, tiny_gguf

SIZE = 100_000_000
CUT = 10_000_000

# Pulls, and says before and after it how much memory the process has (`VmHWM`, in kB).
PULL = """
import re, sys
from pathlib import Path
import huggingface_hub.hf_api, httpx2
from sits.models import __main__ as pulling
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
status = pulling.main(sys.argv[1:])
print(before, peak())
sys.exit(status)
"""


@pytest.fixture(scope="module")
def content() -> bytes:
    return tiny_gguf() + random.Random(3).randbytes(SIZE - len(tiny_gguf()))


@pytest.fixture
def hub(content: bytes) -> Iterator[FakeHub]:
    with FakeHub() as running:
        running.add("org/big", {"big.gguf": content})
        running.faults.cut_every_bytes = CUT
        yield running


@pytest.fixture
def store(hub: FakeHub, tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", prepare=None, hub=HubSettings(hub.endpoint, pause_s=0.01))


def pin_big(store: ModelStore) -> ModelPin:
    return store.pin(parse_model_reference("huggingface://org/big"))


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def progress(lines: Sequence[str]) -> list[Any]:
    return [msgspec.json.decode(line) for line in lines if line.startswith("{")]


@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_two_processes_pull_100_mb_from_a_hub_that_cuts_every_10_mb_once(
    hub: FakeHub, store: ModelStore, content: bytes
) -> None:
    wanted = pin_big(store)
    hub.sent_bytes.clear()
    order = store.pull_command(wanted)[3:]
    running = [start([sys.executable, "-c", PULL, *order]) for _ in range(2)]
    done = [process.communicate(timeout=100) for process in running]
    assert [process.returncode for process in running] == [0, 0], done
    found = store.find(wanted)
    assert found is not None
    with found.path.open("rb") as stream:
        assert hashlib.file_digest(stream, "sha256").digest() == hashlib.sha256(content).digest()
    assert hub.sent_bytes["big.gguf"] == SIZE
    states = [{told["state"] for told in progress(out.splitlines())} for out, _ in done]
    assert sorted(states, key=sorted) == [{"done", "downloading"}, {"done", "waiting"}]
    for out, _ in done:
        before_kb, after_kb = map(int, out.splitlines()[-1].split())
        assert (after_kb - before_kb) * 1024 < 30_000_000


@pytest.mark.timeout(120)
def test_a_killed_pull_is_gone_on_with_by_the_next(
    hub: FakeHub, store: ModelStore, tmp_path: Path
) -> None:
    wanted = pin_big(store)
    partial = tmp_path / "store" / "partial" / f"{wanted.digest[7:]}.part"
    for least in (5_000_000, 30_000_000, 60_000_000):
        process = start(store.pull_command(wanted))
        wait_until(lambda least=least: partial.exists() and partial.stat().st_size >= least)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert store.find(wanted) is None
    kept = partial.stat().st_size
    hub.sent_bytes.clear()
    told: list[str] = []
    store.pull(wanted, lambda each: told.append(each.state))
    assert told[-1] == "done"
    assert hub.sent_bytes["big.gguf"] == SIZE - kept


@pytest.mark.timeout(60)
def test_a_waiting_process_takes_over_when_the_one_that_pulls_is_killed(
    hub: FakeHub, store: ModelStore, tmp_path: Path
) -> None:
    wanted = pin_big(store)
    hub.faults.cut_every_bytes, hub.faults.stall_after_bytes = 0, 2_000_000
    hub.faults.stall_s = 0.5
    partial = tmp_path / "store" / "partial" / f"{wanted.digest[7:]}.part"
    first = start(store.pull_command(wanted))
    wait_until(lambda: partial.exists() and partial.stat().st_size > 0)
    second = start(store.pull_command(wanted))
    assert second.stdout is not None
    assert progress([second.stdout.readline()])[0]["state"] == "waiting"
    first.kill()
    first.communicate()
    hub.faults.stall_after_bytes = 0
    out, _ = second.communicate(timeout=50)
    assert second.returncode == 0
    assert progress(out.splitlines())[-1]["state"] == "done"


def test_a_pull_that_fails_says_so_on_its_last_line(hub: FakeHub, store: ModelStore) -> None:
    wanted = pin_big(store)
    hub.faults.alter = True
    done = subprocess.run(
        store.pull_command(wanted), capture_output=True, text=True, check=False, timeout=60
    )
    last = progress(done.stdout.splitlines())[-1]
    assert (done.returncode, last["state"], last["retryable"]) == (1, "failed", False)
    assert "other bytes" in last["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's form of it")
def test_a_pull_ends_with_the_process_that_started_it(
    hub: FakeHub, store: ModelStore, tmp_path: Path
) -> None:
    wanted = pin_big(store)
    hub.faults.stall_after_bytes, hub.faults.stall_s = 1_000_000, 15
    command = store.pull_command(wanted)
    order = msgspec.json.decode(command[4])
    starter = (
        "import json, os, subprocess, sys\n"
        "order = json.loads(sys.argv[1]); order['parent_pid'] = os.getpid()\n"
        "child = subprocess.Popen([sys.executable, '-m', 'sits.models', 'pull',"
        " json.dumps(order)], stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True); child.wait()\n"
    )
    parent = start([sys.executable, "-c", starter, msgspec.json.encode(order).decode()])
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    partial = tmp_path / "store" / "partial" / f"{wanted.digest[7:]}.part"
    wait_until(lambda: partial.exists() and partial.stat().st_size > 0)
    parent.kill()
    parent.communicate()
    wait_until(lambda: not Path(f"/proc/{child}").exists())


def test_wrong_use_is_told(tmp_path: Path) -> None:
    for words in ([], ["pull"], ["pull", "{}"], ["pull", "nonsense"]):
        done = subprocess.run(
            [sys.executable, "-m", "sits.models", *words], capture_output=True, check=False
        )
        assert (done.returncode, bool(done.stderr)) == (2, True)


def wait_until(holds: Any, within_s: float = 15.0) -> None:
    until_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until_s, "it did not come about in time"
        time.sleep(0.01)
