"""Control, gateway and node are killed at random points of deploys, updates and deletes.

The short form is 30 operations. The whole is 100, with any seed:

    KILL_STORM_OPERATIONS=100 KILL_STORM_SEED=7 pytest tests/e2e/test_kill_storm.py
"""

import itertools
import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sits.node import running_node
from sits.testing import tiny_gguf
from tests.e2e.platform import SLOW_ENGINE, Platform, chat_body, platform, wait_until_gone
from tests.e2e.storm import Storm, make_steps, processes_of, services
from tests.links import wait_for
from tests.processes import descendants, is_running

OPERATIONS = int(os.environ.get("KILL_STORM_OPERATIONS", "30"))
SEED = int(os.environ.get("KILL_STORM_SEED", "1"))
FAKE_ENGINE = "sits.testing:load_fake"
IDLE_S = 1.0


@contextmanager
def storm_on(home: Path) -> Iterator[Storm]:
    storm = Storm(lambda: Platform(home, SITS_ENGINE=FAKE_ENGINE, SITS_IDLE_S=str(IDLE_S)))
    try:
        yield storm
    finally:
        family = storm.platform.family()
        storm.close()
        wait_until_gone(family)


@pytest.mark.timeout(30 + 6 * OPERATIONS)
def test_what_was_acknowledged_is_true_after_a_storm_of_kills(tmp_path: Path) -> None:
    home = tmp_path / "home"
    models = []
    for number in range(2):
        path = tmp_path / f"model-{number}.gguf"
        path.write_bytes(tiny_gguf(padding_bytes=32 * number))
        models.append(f"file://{path}")
    with storm_on(home) as storm:
        for step in make_steps(SEED, OPERATIONS, tuple(models)):
            storm.run(step)
        assert storm.kills.keys() == {"control", "gateway", "node"}
        storm.check_list()
        for name in storm.ledger:
            storm.check_answer(name)
        check_that_all_are_ready(storm)
        check_that_nothing_is_left_over(storm)
        family = storm.platform.family()
        node = running_node(home)
        assert node is not None
        storm.platform.process.send_signal(signal.SIGTERM)
        assert storm.platform.process.wait(10) == 0
        wait_until_gone(family)
        assert processes_of(home) == []
        assert not Path(node.run_dir).exists()
        check_store(home / "sits.db", storm)


def check_that_all_are_ready(storm: Storm) -> None:
    def phases() -> dict[str, str]:
        units = json.loads(storm.platform.sits("iu", "list", "-o", "json"))
        return {unit["name"]: unit["status"]["phase"] for unit in units}

    expected = dict.fromkeys(storm.ledger, "Ready")
    wait_for(lambda: phases() == expected, f"{phases()}, and not all of {expected}", 20)


def check_that_nothing_is_left_over(storm: Storm) -> None:
    """When units are idle there are so many instances as they ask for, and nothing else."""
    instances = sum(spec["scale"]["min_instances"] for spec in storm.ledger.values())
    hosts = len({spec["model"] for spec in storm.ledger.values()})
    counts = {"control": 1, "gateway": 1, "node": 1, "library": 1}
    counts |= {"host": hosts, "template": hosts}
    counts |= {"worker": instances}
    node = running_node(storm.platform.home)
    assert node is not None

    def found() -> dict[str, Any]:
        family = storm.platform.family()
        everything = sorted(pid for group in family.values() for pid in group)
        return {
            "processes": {name: len(pids) for name, pids in sorted(family.items())},
            "orphans": sorted(set(processes_of(storm.platform.home)) - set(everything)),
            "sockets": sorted(path.suffix for path in Path(node.run_dir).glob("*")),
            "instances": len(list(Path(node.run_dir, "i").glob("*.sock"))),
        }

    expected = {
        "processes": {f"sits-{name}": count for name, count in sorted(counts.items()) if count},
        "orphans": [],
        # Those of node, control and its API; the directories of instances' sockets and of prompts.
        "sockets": sorted(["", "", *[".sock"] * (3 + hosts)]),
        "instances": instances,
    }
    deadline = time.monotonic() + 20
    while (now := found()) != expected:
        assert time.monotonic() < deadline, f"{now}, expected {expected}"
        time.sleep(0.1)


def check_store(path: Path, storm: Storm) -> None:
    """Read the store without the code that wrote it."""
    with closing(sqlite3.connect(path)) as store:
        store.row_factory = sqlite3.Row
        assert [tuple(row) for row in store.execute("PRAGMA integrity_check")] == [("ok",)]
        assert store.execute("PRAGMA foreign_key_check").fetchall() == []
        units = {row["name"]: row for row in store.execute("SELECT * FROM units")}
        assert units.keys() == storm.ledger.keys()
        specs = {
            (row["name"], row["revision"]): json.loads(row["spec_json"])
            for row in store.execute("SELECT * FROM revisions")
        }
        for name, unit in units.items():
            assert unit["deleted_s"] is None
            assert specs[name, unit["revision"]]["prompt"] == storm.ledger[name]["prompt"]
            assert unit["serving"] == unit["revision"]
            check_routes(store, unit, specs)
        strange = "SELECT * FROM routes WHERE name NOT IN (SELECT name FROM units)"
        assert store.execute(strange).fetchall() == []


def check_routes(store: sqlite3.Connection, unit: sqlite3.Row, specs: dict[Any, Any]) -> None:
    """A route's history counts up, ends at what serves, and never repeats itself in a row."""
    query = "SELECT * FROM routes WHERE name = ? ORDER BY seq"
    routes = list(store.execute(query, [unit["name"]]))
    assert [route["seq"] for route in routes] == list(range(1, len(routes) + 1))
    assert routes[-1]["revision"] == unit["serving"]
    assert all((unit["name"], route["revision"]) in specs for route in routes)
    revisions = [route["revision"] for route in routes]
    assert all(one != next_one for one, next_one in itertools.pairwise(revisions))
    times = [route["at_s"] for route in routes]
    assert times == sorted(times)
    assert {route["cause"] for route in routes} == {"deploy"}


def test_requests_to_a_running_unit_succeed_while_control_is_kept_down(tmp_path: Path) -> None:
    with platform(tmp_path / "home", SITS_ENGINE=SLOW_ENGINE) as running:
        with running.http() as http:
            unit = {"name": "chat", "model": "builtin://smollm2-135m-instruct"}
            assert http.post("/api/v1/units", json=unit).status_code == 201
            assert http.post("/v1/chat/completions", json=chat_body("hello")).status_code == 200
        family = descendants(running.process.pid)
        over = threading.Event()
        killed: list[int] = []

        def keep_control_down() -> None:
            while not over.is_set():
                for pid in services(running.process.pid, "control"):
                    if is_running(pid):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)
                time.sleep(0.005)

        killer = threading.Thread(target=keep_control_down)
        killer.start()
        try:
            wait_for(lambda: killed, "control was not killed")
            asked = ask_for(running, 2.5)
        finally:
            over.set()
            killer.join()
        assert asked > 10
        assert len(set(killed)) >= 3
        workers = running.family()["sits-worker"]
        assert workers == family["sits-worker"]
        wait_for(lambda: running.run("iu", "get", "chat").returncode == 0, "control is not back")
        assert running.family()["sits-worker"] == workers


def ask_for(running: Platform, seconds: float) -> int:
    """Ask again and again, while one long answer streams; return how often. All succeed."""
    asked = 0
    until = time.monotonic() + seconds
    with running.http() as streaming, running.http() as http:
        body = chat_body("x" * 80, stream=True)
        with streaming.stream("POST", "/v1/chat/completions", json=body) as stream:
            while time.monotonic() < until:
                reply = http.post("/v1/chat/completions", json=chat_body("hello"))
                assert reply.status_code == 200, reply.text
                assert reply.headers["x-sits-tier"] == "hot"
                assert reply.json()["choices"][0]["message"]["content"] == "hello"
                asked += 1
            lines = [line for line in stream.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert sum('"content":"x"' in line for line in lines) == 80
    return asked
