"""Has a source file prepared for the engine, by a process of its own, once for each machine.

The command is given `--parent-pid PID IN OUT_DIR`. It ends with status 0 and a `PreparedRecord`
as the last line of its output, its file (if it made one) in OUT_DIR; or with another status and
`{"error": …, "code": "model" | "full" | "failed"}`.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sits.models._errors import ModelError, ModelStoreFull, ModelUnavailable
from sits.models._layout import Layout, sync_directory, write_json
from sits.models._machine import preparation_key
from sits.models._records import PreparedRecord, read_record

DEFAULT_PREPARE = (sys.executable, "-m", "sits.runtime.prepare")
_RECORD = "prepared.json"
_BUSY = "tmp-"
# The largest models are written in minutes; a process that takes longer than this hangs.
_LIMIT_S = 3600.0


class Failure(msgspec.Struct, frozen=True):
    """Why the command could not prepare a file.

    Attributes:
        code: `model` (it cannot be run), `full` (no room), or `failed`.
    """

    error: str
    code: str = "failed"


def prepare_command(engine: str = "") -> tuple[str, ...]:
    """Return the command that prepares files for an engine, for `ModelStore`.

    Args:
        engine: its factory, as in the setting `engine`; empty: llama.cpp.
    """
    return (*DEFAULT_PREPARE, "--engine", engine) if engine else DEFAULT_PREPARE


def find_prepared(
    layout: Layout, digest: str, prepare: Sequence[str]
) -> tuple[PreparedRecord, Path | None] | None:
    """Return how a digest is prepared for this machine, and the file if one was made.

    Returns:
        None when it is not prepared; no file when the source is used as it was shipped.
    """
    directory = layout.prepared(digest, preparation_key(prepare))
    record = read_record(directory / _RECORD, PreparedRecord)
    if record is None or not record.file:
        return (record, None) if record else None
    path = directory / record.file
    try:
        size = path.stat().st_size
    except OSError:
        return None
    return (record, path) if size == record.size_bytes else None


def run_prepare(layout: Layout, digest: str, source: Path, prepare: Sequence[str]) -> None:
    """Prepare a source file; the digest's lock has to be held.

    Raises:
        ModelError: the engine cannot run it.
        ModelStoreFull: there is no room for what would be made.
        ModelUnavailable: the process failed in another way.
        OSError: the store cannot be written.
    """
    home = layout.prepared(digest)
    home.mkdir(mode=0o700, exist_ok=True)
    for left in home.glob(f"{_BUSY}*"):  # of a process that was killed: the lock is ours
        shutil.rmtree(left, ignore_errors=True)
    busy = home / f"{_BUSY}{secrets.token_hex(4)}"
    busy.mkdir(mode=0o700)
    try:
        record = _run(prepare, source, busy)
        if record.file:
            _sync_file(busy / record.file)
        write_json(busy / _RECORD, record)
        target = layout.prepared(digest, preparation_key(prepare))
        shutil.rmtree(target, ignore_errors=True)
        busy.rename(target)
        sync_directory(home)
    finally:
        shutil.rmtree(busy, ignore_errors=True)


def _run(prepare: Sequence[str], source: Path, out: Path) -> PreparedRecord:
    command = [*prepare, "--parent-pid", str(os.getpid()), str(source), str(out)]
    try:
        done = subprocess.run(  # noqa: S603 - the command is a setting, its arguments are paths
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ModelUnavailable(f"preparing {source} took over {_LIMIT_S:g} s") from error
    lines = done.stdout.splitlines() or [b""]
    if done.returncode == 0:
        try:
            record = msgspec.json.decode(lines[-1], type=PreparedRecord)
        except msgspec.MsgspecError as error:
            raise ModelUnavailable(f"{command[:3]} gave no record: {error}") from error
        if record.file and Path(record.file).name != record.file:
            raise ModelUnavailable(f"{command[:3]} names {record.file!r}, which is no plain name")
        return record
    failure = Failure("")
    with contextlib.suppress(msgspec.MsgspecError):
        failure = msgspec.json.decode(lines[-1], type=Failure)
    match failure.code:
        case "model":
            raise ModelError(failure.error)
        case "full":
            raise ModelStoreFull(failure.error)
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    said = failure.error or done.stderr.decode("utf-8", "replace").strip()[-500:]
    raise ModelUnavailable(
        f"preparing {source} for the engine ended with {how}: {said or 'it said nothing'}; is "
        "there memory for the model?"
    )


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
