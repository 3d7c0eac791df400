"""Where things lie in the store, and how they are written so that a crash leaves no half.

    blobs/HEX               a source file; HEX is the sha256 of its bytes
    blobs/HEX.json          how it came here, and what it looked like then (`_sources`)
    partial/HEX.part        a download that is not complete
    converted/HEX-N.gguf    a builtin of another format, as GGUF
    prepared/HEX/KEY/       what the engine is given on this machine (`_prepare`)
    pins/HASH.json          what a reference meant last
    seen/HASH.json          the digest of a file elsewhere, by inode, size and time
    owners/HASH.json        what one platform needs
    locks/HEX.lock          held by whoever takes that model in, or removes it
    locks/owners            held while what platforms need is written, or acted upon

Invariant: a file under its own name is complete. It is written under another name, synced, and
renamed; only `partial` holds what is not complete, and nothing reads it but the download.
"""

import hashlib
import os
import re
import secrets
from pathlib import Path

import msgspec

from sits.models._errors import ModelError

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_FOLDERS = ("blobs", "partial", "converted", "prepared", "pins", "seen", "owners", "locks")


def hex_of(digest: str) -> str:
    """Return the hex digits of a digest.

    Raises:
        ModelError: it is not of the form `sha256:` and 64 hex digits.
    """
    found = _DIGEST.fullmatch(digest)
    if not found:
        raise ModelError(f"{digest!r} is not a digest; expected sha256: and 64 hex digits")
    return found[1]


class Layout:
    """The paths of one store.

    Args:
        root: its directory; made, open to this user alone, by `make`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def make(self) -> None:
        """Make the directories that are missing."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in _FOLDERS:
            (self.root / folder).mkdir(mode=0o700, exist_ok=True)

    def blob(self, digest: str) -> Path:
        """Return where the source file of that digest is."""
        return self.root / "blobs" / hex_of(digest)

    def blob_record(self, digest: str) -> Path:
        """Return where it is written how that source file came here."""
        return self.root / "blobs" / f"{hex_of(digest)}.json"

    def partial(self, digest: str) -> Path:
        """Return where a download of that digest grows."""
        return self.root / "partial" / f"{hex_of(digest)}.part"

    def converted(self, digest: str, version: int) -> Path:
        """Return where a source that is no GGUF is kept as one."""
        return self.root / "converted" / f"{hex_of(digest)}-{version}.gguf"

    def prepared(self, digest: str, key: str = "") -> Path:
        """Return the directory of the prepared forms, or of the one with that key."""
        return self.root / "prepared" / hex_of(digest) / key

    def lock(self, digest: str) -> Path:
        """Return the file whose lock is held while that digest is taken in or removed."""
        return self.root / "locks" / f"{hex_of(digest)}.lock"

    def owners_lock(self) -> Path:
        """Return the file whose lock is held while owners are written, or a model is removed."""
        return self.root / "locks" / "owners"

    def pin(self, reference: str) -> Path:
        """Return where it is written what a reference meant last."""
        return self.root / "pins" / f"{_hash(reference)}.json"

    def seen(self, path: Path) -> Path:
        """Return where the digest of a file elsewhere is written."""
        return self.root / "seen" / f"{_hash(str(path))}.json"

    def owner(self, home: Path) -> Path:
        """Return where it is written what the platform of that home needs."""
        return self.root / "owners" / f"{_hash(str(home))}.json"


def write_json(path: Path, value: object) -> None:
    """Put a JSON document in the place of whatever is there, whole or not at all."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as stream:
            stream.write(msgspec.json.encode(value))
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Have the names in a directory survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]
