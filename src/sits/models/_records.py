"""The small JSON documents of the store. One that cannot be read counts as not there.

Nothing in them is the only copy of anything: a lost pin is asked for again, a lost digest is
computed again, a lost preparation is made again. So a document of another version of SITS, or of
a disk that failed, is no error.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

R = TypeVar("R")


class BlobRecord(msgspec.Struct, frozen=True):
    """How a source file came into the store, and what it looked like then.

    Attributes:
        path: where it is, when it was left in its place; empty: in the store.
        size_bytes, mtime_ns, inode: what a look must find, or the file is another now.
    """

    path: str
    size_bytes: int
    mtime_ns: int
    inode: int


class SeenRecord(msgspec.Struct, frozen=True):
    """The digest that a file had when it looked so."""

    path: str
    size_bytes: int
    mtime_ns: int
    inode: int
    device: int
    digest: str


class OwnerRecord(msgspec.Struct, frozen=True):
    """What the platform of one home needs."""

    home: str
    digests: tuple[str, ...]


class Measured(msgspec.Struct, frozen=True):
    """How fast one representation was, on this machine.

    Attributes:
        prefill_ms: for a prompt of 300 tokens.
        decode_ms: for one step of a batch of 8 (0 for a model that only embeds).
    """

    representation: str
    prefill_ms: float
    decode_ms: float


class PreparedRecord(msgspec.Struct, frozen=True):
    """What came of preparing a file for the engine.

    Attributes:
        representation: of the weights, such as BF16.
        file: its name beside this record; empty: the source file is used as it was shipped.
        size_bytes: of that file; 0 without one.
        architecture, shipped: what the source file is: its architecture and its weights.
        context_tokens: the longest context that it was trained for.
        reason: why this representation was chosen.
        measured: what was measured to choose it, if anything was.
    """

    representation: str
    file: str = ""
    size_bytes: int = 0
    architecture: str = ""
    shipped: str = ""
    context_tokens: int = 0
    reason: str = ""
    measured: tuple[Measured, ...] = ()


def read_record(path: Path, kind: type[R]) -> R | None:
    """Return what a document says; None when there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
