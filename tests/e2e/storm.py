"""A storm: an operator's deploys, updates and deletes, while parts of the platform are killed.

The operator is one who does not give up: an operation that got no answer is tried again until it
is acknowledged, and the ledger holds what was. All choices come from a seed; what the kills hit
depends on the machine's moods.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.e2e.platform import Platform
from tests.processes import children

UNITS = tuple(f"unit-{number}" for number in range(6))
_KILL_SHARE = 0.35
_VICTIMS = ("control", "gateway", "node")
_VICTIM_WEIGHTS = (4, 3, 2)
# An operation takes about 0.03 s: most kills hit it, the others what comes after it.
_MEAN_DELAY_S = 0.04
_LATEST_KILL_S = 0.5
_GIVE_UP_S = 45.0
_PAUSE_S = 0.02


@dataclass(frozen=True)
class Step:
    """One operation, and who is killed how long after it began.

    Attributes:
        spec: what is deployed; None: the unit is deleted.
    """

    unit: str
    spec: dict[str, Any] | None
    victim: str | None
    delay_s: float


def make_steps(seed: int, count: int, models: tuple[str, ...]) -> list[Step]:
    """Return the operations of a storm. Each victim is met: the first three kills are of them."""
    dice = random.Random(seed)
    first = dice.sample(_VICTIMS, k=len(_VICTIMS))
    there: set[str] = set()
    steps = []
    for number in range(count):
        unit = dice.choice(UNITS)
        deletes = unit in there and dice.random() < 0.3
        (there.discard if deletes else there.add)(unit)
        spec = {
            "name": unit,
            "model": dice.choice(models),
            "prompt": {"template": f"words-{number} {{{{ q }}}}"},
            "scale": {"min_instances": dice.choice((0, 0, 1)), "max_instances": 2},
        }
        hits = dice.random() < _KILL_SHARE
        victim = (first or dice.choices(_VICTIMS, _VICTIM_WEIGHTS)).pop() if hits else None
        delay_s = min(dice.expovariate(1 / _MEAN_DELAY_S), _LATEST_KILL_S)
        steps.append(Step(unit, None if deletes else spec, victim, delay_s))
    return steps


@dataclass
class Storm:
    """The operator, the platform of now, and the ledger of what was acknowledged.

    Attributes:
        start: makes a platform on the home; the former one's node is dead.
        ledger: the last acknowledged spec of each unit that is to be there.
        kills: how many processes of each kind were killed.
    """

    start: Callable[[], Platform]
    ledger: dict[str, dict[str, Any]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Start the platform."""
        self._begin()

    def _begin(self) -> None:
        self.platform = self.start()
        self._http = self.platform.http()

    def close(self) -> None:
        """End what runs."""
        self._http.close()
        self.platform.close()

    def run(self, step: Step) -> None:
        """Do one operation to its acknowledgement, with its kill on the way."""
        with self._kill_later(step.victim, step.delay_s):
            if step.spec is None:
                self._delete(step.unit)
            else:
                self._deploy(step.spec)
        self.check_list()
        self.check_answer(step.unit)

    def _deploy(self, spec: dict[str, Any]) -> None:
        reply, _ = self._insist("POST", "/api/v1/units", spec)
        assert reply.status_code in (200, 201), reply.text
        self.ledger[spec["name"]] = spec

    def _delete(self, unit: str) -> None:
        reply, tries = self._insist("DELETE", f"/api/v1/units/{unit}")
        # An earlier try may have been heard, and its answer lost.
        assert reply.status_code == 200 or (reply.status_code == 404 and tries > 1), reply.text
        del self.ledger[unit]

    def check_list(self) -> None:
        """All that was acknowledged is there, and nothing else."""
        reply, _ = self._insist("GET", "/api/v1/units")
        assert reply.status_code == 200, reply.text
        listed = {unit["name"]: unit for unit in reply.json()["units"]}
        there = {name for name, unit in listed.items() if unit["status"]["phase"] != "Deleting"}
        assert there == self.ledger.keys()
        wanted = {name: listed[name]["spec"]["prompt"] for name in there}
        assert wanted == {name: spec["prompt"] for name, spec in self.ledger.items()}

    def check_answer(self, unit: str) -> None:
        """A unit answers by what was acknowledged last, or is not known, if that was its end.

        Until a newer revision is ready the former one answers, so that is waited for.
        """
        spec = self.ledger.get(unit)
        body = {"inputs": {"q": "hello"}}
        until = time.monotonic() + _GIVE_UP_S
        while True:
            reply, _ = self._insist("POST", f"/iu/{unit}/v1/query", body)
            if spec is None:
                assert reply.status_code == 404, reply.text
                return
            assert reply.status_code == 200, reply.text
            words = spec["prompt"]["template"].partition(" ")[0]
            if reply.json()["output"] == f"{words} hello":
                return
            assert time.monotonic() < until, f"{reply.text}, long after {words} was deployed"
            time.sleep(_PAUSE_S)

    def _insist(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[httpx2.Response, int]:
        """Send a request until it is answered; return the answer, and after how many tries."""
        until = time.monotonic() + _GIVE_UP_S
        tries = 0
        while True:
            tries += 1
            try:
                reply = self._http.request(method, path, json=body)
                if reply.status_code < 500:
                    return reply, tries
                problem = reply.text
                retried = ("control_unavailable", "not_ready", "instance_", "shutting_down")
                assert any(code in problem for code in retried), problem
            except httpx2.HTTPError as error:
                problem = repr(error)
            assert time.monotonic() < until, f"{method} {path}: {problem}, for {_GIVE_UP_S} s"
            if self.platform.process.poll() is not None:
                self.close()
                self._begin()
            time.sleep(_PAUSE_S)

    @contextmanager
    def _kill_later(self, victim: str | None, delay_s: float) -> Iterator[None]:
        if victim is None:
            yield
            return
        timer = threading.Timer(delay_s, self._kill, [victim, self.platform.process.pid])
        timer.start()
        try:
            yield
        finally:
            timer.join()

    def _kill(self, victim: str, node_pid: int) -> None:
        pids = [node_pid] if victim == "node" else services(node_pid, victim)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            self.kills[victim] += 1


def services(node_pid: int, name: str) -> list[int]:
    """Return the node's children that run a service, also one that has just been started."""
    found = []
    for pid in children(node_pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"sits.{name}".encode() in words:
            found.append(pid)
    return found


def processes_of(home: Path) -> list[int]:
    """Return all processes of a platform, orphans too: they have its home in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"SITS_HOME={home}".encode() in words:
            found.append(int(entry.name))
    return found
