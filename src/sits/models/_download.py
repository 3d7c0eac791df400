"""Brings one file from the hub, however often the connection breaks.

Invariants: bytes are only ever added at the end of the partial file, from the position that it
has; so whatever ends the process, the next one goes on from there. Memory does not grow with the
file. A file is given its own name only when its digest is right.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from sits.models._errors import ModelError, ModelStoreFull
from sits.models._hub import Hub, HubBroke, HubBusy, HubSettings
from sits.models._types import PullProgress

# How far a connection must get beyond all before it, so that it counts as getting further.
_PROGRESS_BYTES = 64 << 10
_READ_BYTES = 1 << 20
# Left free on the disk, for the records and for others.
_SPARE_BYTES = 16 << 20


@dataclass(frozen=True)
class Wanted:
    """One file at the hub."""

    repository: str
    commit: str
    file: str
    size_bytes: int
    sha256: str


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


def download(
    hub: Hub,
    settings: HubSettings,
    wanted: Wanted,
    partial: Path,
    report: Callable[[PullProgress], None],
) -> None:
    """Make `partial` the whole file, and check its digest.

    Args:
        hub: where it is.
        settings: how long and how often is tried.
        wanted: which file.
        partial: what is there already is kept; the caller holds the digest's lock.
        report: is told how far it is.

    Raises:
        ModelError: the file is not there any more, or its bytes are not what the hub announced.
        ModelUnavailable: it broke off or stalled too often; what has come is kept.
        ModelStoreFull: there is no room for it.
        OSError: the store cannot be written.
    """
    resumed = _length(partial) > 0
    if _fetch(hub, settings, wanted, partial, report) == wanted.sha256:
        return
    partial.unlink()
    if resumed:
        # What an earlier process wrote may have been lost with the power; these bytes are fresh.
        _say(report, wanted, 0, "what was here already is not right; starting again")
        if _fetch(hub, settings, wanted, partial, report) == wanted.sha256:
            return
        partial.unlink()
    raise ModelError(
        f"{wanted.file} of {wanted.repository} came with other bytes than the hub announced "
        f"(sha256 {wanted.sha256[:12]}…); a mirror or proxy on the way alters it: check "
        "HF_ENDPOINT and HTTPS_PROXY"
    )


def _fetch(
    hub: Hub,
    settings: HubSettings,
    wanted: Wanted,
    partial: Path,
    report: Callable[[PullProgress], None],
) -> str:
    with partial.open("a+b", buffering=0) as stream:
        if _length(partial) > wanted.size_bytes:
            stream.truncate(0)
        _check_room(partial, wanted, wanted.size_bytes - _length(partial))
        fetch = _Fetch(hub, settings, wanted, stream, report)
        fetch.read_what_is_here()
        fetch.run()
        os.fsync(stream.fileno())
        return fetch.hash.hexdigest()


class _Fetch:
    """One download, over as many connections as it takes."""

    def __init__(
        self,
        hub: Hub,
        settings: HubSettings,
        wanted: Wanted,
        stream: BinaryIO,
        report: Callable[[PullProgress], None],
    ) -> None:
        self._hub = hub
        self._settings = settings
        self._wanted = wanted
        self._stream = stream
        self._report = report
        self.hash: _Hash = hashlib.sha256()
        self.done = 0

    def read_what_is_here(self) -> None:
        self._stream.seek(0)
        while data := self._stream.read(_READ_BYTES):
            self.hash.update(data)
            self.done += len(data)

    def run(self) -> None:
        failures, busy_s = 0, 0.0
        furthest = self.done
        while self.done < self._wanted.size_bytes:
            try:
                self._connect()
                problem = HubBroke("the hub ended its answer early")
            except HubBusy as busy:
                busy_s += self._wait_while_busy(busy, busy_s)
                continue
            except HubBroke as broke:
                problem = broke
            if self.done >= self._wanted.size_bytes:
                return
            # Not from where it began: without ranges each one begins at the first byte.
            is_further = self.done - furthest >= _PROGRESS_BYTES
            furthest = max(furthest, self.done)
            if is_further:
                failures = 0
                continue
            failures += 1
            self._pause(failures, problem)

    def _connect(self) -> None:
        wanted = self._wanted
        span = (self.done, None)
        with self._hub.body(wanted.repository, wanted.commit, wanted.file, span) as body:
            if body.start != self.done:
                self._start_over(body.start)
            for part in body.parts:
                if self.done + len(part) > wanted.size_bytes:
                    raise ModelError(
                        f"{wanted.file} of {wanted.repository} is longer than the "
                        f"{wanted.size_bytes} bytes that the hub announced"
                    )
                self._write(part)

    def _start_over(self, start: int) -> None:
        if start != 0:
            raise HubBroke(f"the hub answered with bytes from {start}, not from {self.done}")
        self._stream.truncate(0)
        self.hash, self.done = hashlib.sha256(), 0

    def _write(self, part: bytes) -> None:
        view = memoryview(part)
        while view:
            written = self._stream.write(view)
            self.hash.update(view[:written])
            self.done += written
            view = view[written:]
        _say(self._report, self._wanted, self.done, "")

    def _wait_while_busy(self, busy: HubBusy, waited_s: float) -> float:
        wait_s = busy.retry_after_s if busy.retry_after_s is not None else 10.0
        # A hub that says "at once" each time is asked no more than once a second.
        wait_s = max(wait_s, 1.0)
        if waited_s + wait_s > self._settings.busy_s:
            raise busy
        message = f"the hub is busy (429) and asks to wait {wait_s:g} s"
        _say(self._report, self._wanted, self.done, message)
        time.sleep(wait_s)
        return wait_s

    def _pause(self, failures: int, problem: HubBroke) -> None:
        wanted, tries = self._wanted, self._settings.tries
        if failures >= tries:
            raise HubBroke(
                f"{wanted.file} of {wanted.repository}: {self.done} of {wanted.size_bytes} bytes "
                f"have come, then {problem} ({failures} times); what has come is kept: pull it "
                "again to go on from there"
            ) from problem
        message = f"{problem}; going on at byte {self.done} (try {failures + 1} of {tries})"
        _say(self._report, wanted, self.done, message)
        time.sleep(self._settings.pause_s * 2 ** (failures - 1))


def _say(report: Callable[[PullProgress], None], wanted: Wanted, done: int, message: str) -> None:
    report(PullProgress("downloading", done, wanted.size_bytes, message))


def _check_room(partial: Path, wanted: Wanted, missing: int) -> None:
    free = shutil.disk_usage(partial.parent).free
    if missing + _SPARE_BYTES > free:
        raise ModelStoreFull(
            f"{wanted.file} needs {missing / 1e6:.0f} MB more, and the disk of {partial.parent} "
            f"has {free / 1e6:.0f} MB free; free some room, or remove models: `sits models gc`"
        )


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
