"""The home directory: who runs on it, and where its sockets are.

Invariants: one node for each home, held by a file lock that the kernel releases however the
node ends; no process is ever signalled by an id read from a file; the directory of sockets
belongs to this user and to nobody else.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sits._errors import SitsError

_LOCK = "node.lock"
_PROBED_S = 0.5
_PROBE_POLL_S = 0.005


class NodeError(SitsError):
    """The node cannot start, or is not there."""

    code = "node_error"


class RunningNode(msgspec.Struct, frozen=True):
    """What a running node writes about itself.

    Attributes:
        url: the base URL of its gateway.
        run_dir: its directory of sockets.
        drain_s: how long running answers get when it ends.
        ready: whether it has come up once.
    """

    url: str
    run_dir: str
    drain_s: float = 0.0
    ready: bool = False


class HomeLock:
    """The lock on a home directory, held while the node runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def describe(self, node: RunningNode) -> None:
        """Write what others may read about the node."""
        data = msgspec.json.encode(node)
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))


def prepare_home(home: Path) -> Path:
    """Make the home directory, if need be, and return its directory of logs.

    Raises:
        NodeError: it cannot be used.
    """
    logs = home / "logs"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        logs.mkdir(mode=0o700, exist_ok=True)
        if not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError("it is not writable")
    except OSError as error:
        raise NodeError(
            f"the home directory {home} cannot be used: {error}; choose another with SITS_HOME"
        ) from error
    return logs


@contextlib.contextmanager
def lock_home(home: Path) -> Iterator[HomeLock]:
    """Make the home directory if need be, and hold its lock.

    Raises:
        NodeError: another node runs on it, or the directory cannot be used.
    """
    prepare_home(home)
    try:
        descriptor = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NodeError(f"{home / _LOCK} cannot be locked: {error}; remove it") from error
    try:
        if not _take_soon(descriptor):
            node = _read(descriptor)
            where = f" at {node.url}" if node.url else ""
            raise NodeError(
                f"the platform is already running{where} on {home}; `sits down` ends it, and "
                "another one needs its own SITS_HOME and --port"
            )
        os.ftruncate(descriptor, 0)
        yield HomeLock(descriptor)
    finally:
        os.close(descriptor)


def running_node(home: Path) -> RunningNode | None:
    """Return what runs on a home directory, None when nothing does."""
    try:
        descriptor = os.open(home / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _take(descriptor) else _read(descriptor)
    finally:
        os.close(descriptor)


def make_run_dir(home: Path) -> str:
    """Make and return the directory of sockets for a home; what an earlier node left goes.

    It is short, since a unix socket's path has at most 107 bytes, and on a file system of this
    boot where there is one.

    Raises:
        NodeError: what is there belongs to somebody else.
    """
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    parent = runtime if runtime and len(runtime) < 40 and os.path.isdir(runtime) else "/tmp"  # noqa: S108 - ownership and mode are checked below
    path = os.path.join(parent, f"sits-{os.getuid()}-{name}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not private or stat.S_IMODE(found.st_mode) & 0o077:
        raise NodeError(
            f"{path} is not a directory that only this user may enter; remove it, or set "
            "XDG_RUNTIME_DIR"
        )
    remove_run_dir(path)
    os.mkdir(path, 0o700)
    return path


def remove_run_dir(path: str) -> None:
    """Remove a directory of sockets that `make_run_dir` made."""
    shutil.rmtree(path, ignore_errors=True)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_soon(descriptor: int) -> bool:
    """Take the lock, also when somebody is just looking whether it is taken."""
    until_s = time.monotonic() + _PROBED_S
    while not _take(descriptor):
        if time.monotonic() > until_s:
            return False
        time.sleep(_PROBE_POLL_S)
    return True


def _read(descriptor: int) -> RunningNode:
    try:
        return msgspec.json.decode(os.pread(descriptor, 65536, 0), type=RunningNode)
    except msgspec.MsgspecError:
        return RunningNode(url="", run_dir="")  # it has the lock, and has not written yet
