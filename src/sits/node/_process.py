"""One child process of the node: started by exec, watched, started again, ended.

Invariants: a child never outlives the node (it asks the kernel for that itself, first thing);
its output goes to a file of its own, which survives it; ending it is bounded in time.
"""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import anyio.abc
import msgspec

from sits.observe import message_of
from sits.trust import ENVIRONMENT_PREFIX

_log = logging.getLogger(__name__)
_MAX_LOG_BYTES = 16 * 1024 * 1024
_TAIL_BYTES = 4096

# The engine's process forks, and a fork is safe from one thread only: these keep libraries
# from starting threads of their own when they are imported.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

# Given to the one process that needs it.
_NOT_INHERITED = frozenset({"SITS_STORE_URL"})


class ChildProcess:
    """A started process. Use `start`."""

    def __init__(self, name: str, process: anyio.abc.Process, log_path: Path) -> None:
        self.name = name
        self._process = process
        self._log_path = log_path

    @classmethod
    async def start(
        cls,
        name: str,
        module: str,
        settings: Mapping[str, Any],
        log_dir: Path,
        pass_fds: Sequence[int] = (),
        *,
        environment: Mapping[str, str] | None = None,
    ) -> "ChildProcess":
        """Run `python -m module SETTINGS`, with its output in `log_dir/name.log`.

        `environment` is what only this process is to have beside what all have.

        The settings go as JSON: the node need not import what it starts, and the process
        refuses a name that it does not know.

        Raises:
            OSError: the kernel gives no process.
        """
        log_path = log_dir / f"{name}.log"
        with _open_log(log_path) as log:
            process = await anyio.open_process(
                [sys.executable, "-P", "-m", module, msgspec.json.encode(settings).decode()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_environment(os.environ), **(environment or {})},
                start_new_session=True,
                pass_fds=tuple(pass_fds),
            )
        _log.info("started %s (pid %d)", name, process.pid)
        return cls(name, process, log_path)

    async def wait(self) -> str:
        """Wait for its end and return how it ended, with the last line that it wrote."""
        status = await self._process.wait()
        how = (
            f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
        )
        return with_last_line(how, self._log_path)

    def kill_nowait(self) -> None:
        """Have the kernel end it."""
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:
                self._process.send_signal(number)

    async def end(self, grace_s: float) -> None:
        """Ask it to end, wait, and kill it after `grace_s`. Not cancelled half-way."""
        with anyio.CancelScope(shield=True):
            self.signal(signal.SIGTERM)
            with anyio.move_on_after(grace_s):
                await self._process.wait()
                return
            _log.warning("%s did not end within %.1f s and is killed", self.name, grace_s)
            self.signal(signal.SIGKILL)
            await self._process.wait()


def with_last_line(how: str, log_path: Path) -> str:
    """Return how a process ended with the last line of its log, if there is one."""
    with contextlib.suppress(OSError), open(log_path, "rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
        if lines:
            return f"{how}: {message_of(lines[-1])}"
    return how


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    shared = {
        name: value
        for name, value in inherited.items()
        if name not in _NOT_INHERITED and not name.startswith(ENVIRONMENT_PREFIX)
    }
    return {**shared, **_ENVIRONMENT}


def _open_log(path: Path) -> BinaryIO:
    return open(path, "ab", opener=_private)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def bound_logs(log_dir: Path, max_bytes: int = _MAX_LOG_BYTES) -> None:
    """Keep each log of bounded size, with one old file beside it.

    The file stays the one that its writer has open (for appending): its content is copied, and
    it is cut. A line that is written in between is lost.
    """
    for path in log_dir.glob("*.log"):
        with contextlib.suppress(OSError):  # a full disk, or a log that has just gone
            if path.stat().st_size > max_bytes:
                shutil.copyfile(path, path.with_suffix(".log.1"))
                os.truncate(path, 0)
