"""A platform as a person starts it: `sits up`, in a home of its own, on a free port."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.links import wait_for
from tests.processes import descendants, end, is_running

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat.yaml"
SLOW_ENGINE = "sits.testing:load_slow_fake"


@functools.cache
def _models_dir() -> str:
    """Return a directory of models for all platforms of this run: one takes a second to fill."""
    directory = tempfile.mkdtemp(prefix="sits-models-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class Platform:
    """One running platform."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        own = {"SITS_HOME": str(home), "SITS_MODELS_DIR": _models_dir()}
        self.environment = {**os.environ, **own, **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sits.cli", "up", "--port", "0", "-o", "json"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # As in a terminal: Ctrl-C goes to a group that the platform leads.
            start_new_session=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read().decode())
        self.url = str(json.loads(line)["url"])
        self.key = (home / "key").read_text().strip()

    def sits(self, *arguments: str, status: int = 0) -> str:
        """Run a command against it and return its standard output."""
        done = self.run(*arguments)
        assert done.returncode == status, done.stderr
        return done.stdout

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command against it."""
        return subprocess.run(
            [sys.executable, "-m", "sits.cli", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def http(self) -> httpx2.Client:
        """Return a client with its key."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=20, trust_env=False)

    def async_http(self) -> httpx2.AsyncClient:
        """Return a client with its key, for many requests at once."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=20, trust_env=False)

    def family(self) -> dict[str, list[int]]:
        """Return the process ids of all its processes, by what they call themselves."""
        return descendants(self.process.pid)

    def wait_for_family(self, within_s: float = 10.0, **counts: int) -> dict[str, list[int]]:
        """Return the family once it has so many of each kind (`worker=1`)."""

        def probe() -> dict[str, list[int]] | None:
            family = self.family()
            found = all(len(family.get(f"sits-{k}", [])) == n for k, n in counts.items())
            return family if found else None

        return wait_for(probe, f"expected {counts}, found {self.family()}", within_s)

    def close(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        end(self.process)


@contextmanager
def platform(home: Path, **environment: str) -> Iterator[Platform]:
    """Run a platform; whatever becomes of it, nothing of it is left."""
    running = Platform(home, **environment)
    family = running.family()
    try:
        yield running
    finally:
        family = running.family() or family
        running.close()
        wait_until_gone(family)


def wait_until_gone(family: dict[str, list[int]], within_s: float = 2.0) -> float:
    """Wait until none of the processes runs, and return how long that took, in seconds."""
    began = time.monotonic()
    ids = [pid for group in family.values() for pid in group]
    wait_for(lambda: not any(map(is_running, ids)), "a process was left behind", within_s)
    return time.monotonic() - began


def chat_body(words: str, **more: Any) -> dict[str, Any]:
    """Return the body of a chat request to the unit `chat`."""
    return {"model": "chat", "messages": [{"role": "user", "content": words}], **more}
