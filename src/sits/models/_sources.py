"""Source files that are on this machine: their digest, and how the store takes hold of them.

A file is taken in by a copy that shares its blocks (reflink) where the file system can, else by a
hard link, else it is left in its place. A hard link and a place can be written to by others, so
the record says what the file looked like, and one that looks different is not used any more.

Invariant: nothing here writes to a file that is not the store's own.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from pathlib import Path

from sits.models._errors import ModelError, ModelUnavailable
from sits.models._layout import Layout, sync_directory, write_json
from sits.models._records import BlobRecord, SeenRecord, read_record

_FICLONE = 0x40049409
# A file may be written to again within one tick of the file system's clock, and look the same.
_SETTLED_S = 2.0


def check_readable(path: Path, named: str) -> Path:
    """Return the real path of a file that can be read.

    Args:
        path: the file.
        named: what messages call it.

    Raises:
        ModelError: there is none.
    """
    try:
        real = path.resolve(strict=True)
        # O_NONBLOCK: opening a named pipe would wait for a writer for ever.
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "symbolic links in a loop"
        raise ModelError(
            f"{named} cannot be read: {reason}; expected a readable GGUF file"
        ) from error
    if not regular:
        raise ModelError(f"{named} is not a regular file; expected a GGUF file")
    return real


def digest_of(layout: Layout, path: Path, named: str) -> tuple[str, int]:
    """Return a file's digest and size; it is read only when it looks different from last time.

    Raises:
        ModelError: it cannot be read.
        ModelUnavailable: it is being written to.
    """
    try:
        before = path.stat()
        seen = read_record(layout.seen(path), SeenRecord)
        if seen and _look(before) == (seen.size_bytes, seen.mtime_ns, seen.inode, seen.device):
            return seen.digest, seen.size_bytes
        with path.open("rb") as stream:
            digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
        after = path.stat()
    except OSError as error:
        raise ModelError(
            f"{named} cannot be read: {error.strerror}; expected a readable file"
        ) from error
    if _look(before) != _look(after):
        raise ModelUnavailable(f"{named} is being written to; try again when it is done")
    if time.time() - after.st_mtime > _SETTLED_S:
        size, mtime_ns, inode, device = _look(after)
        record = SeenRecord(str(path), size, mtime_ns, inode, device, digest)
        with contextlib.suppress(OSError):  # it is read again then
            write_json(layout.seen(path), record)
    return digest, after.st_size


def find_blob(layout: Layout, digest: str) -> Path | None:
    """Return the source file of a digest, if it is here and looks as it did when it came."""
    record = read_record(layout.blob_record(digest), BlobRecord)
    if record is None:
        return None
    path = Path(record.path) if record.path else layout.blob(digest)
    try:
        look = _look(path.stat())
    except OSError:
        return None
    return path if look[:3] == (record.size_bytes, record.mtime_ns, record.inode) else None


def take_in(layout: Layout, path: Path, digest: str) -> Path:
    """Make a local file the store's source of that digest; the digest's lock has to be held.

    Returns:
        Where it can be read from now on.

    Raises:
        OSError: the store cannot be written.
    """
    forget_blob(layout, digest)
    blob = layout.blob(digest)
    if _clone(path, blob) or _link(path, blob):
        record_blob(layout, digest, blob, in_place=False)
        return blob
    record_blob(layout, digest, path, in_place=True)
    return path


def record_blob(layout: Layout, digest: str, path: Path, *, in_place: bool) -> None:
    """Write down that a source file is here, and what it looks like."""
    size, mtime_ns, inode, _ = _look(path.stat())
    record = BlobRecord(str(path) if in_place else "", size, mtime_ns, inode)
    sync_directory(path.parent)
    write_json(layout.blob_record(digest), record)


def forget_blob(layout: Layout, digest: str) -> int:
    """Remove a source file, unless it is not the store's own; return the bytes that were freed."""
    layout.blob_record(digest).unlink(missing_ok=True)
    blob = layout.blob(digest)
    try:
        look = blob.stat()
    except FileNotFoundError:
        return 0
    blob.unlink()
    return look.st_size if look.st_nlink == 1 else 0


def _look(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev)


def _clone(source: Path, target: Path) -> bool:
    beside = target.with_name(f".{target.name}.clone")
    try:
        with source.open("rb") as read, beside.open("wb") as write:
            fcntl.ioctl(write.fileno(), _FICLONE, read.fileno())
            os.fsync(write.fileno())
        beside.replace(target)
    except OSError:  # another file system, or one that has no such thing
        beside.unlink(missing_ok=True)
        return False
    return True


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:  # another file system, or a file of somebody else
        return False
    return True
