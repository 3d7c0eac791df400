"""A sequence's computed state as bytes, and the file that it is kept in.

    magic (8) | header size, u32 little-endian (4) | header, msgpack | state | SHA-256 (32)

Invariants: an image is read whole and right or not at all; the digest covers everything before
it. A file appears under its name only when all of it is on the disk; its former content stays
when anything fails. What an image fits to is in its header: never to another model, adapter or
engine.
"""

import array
import contextlib
import hashlib
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sits._errors import SitsError

_MAGIC = b"SITSKV1\n"
_SIZE_BYTES = 4
_DIGEST_BYTES = 32


class ImageError(SitsError):
    """These bytes are no image, or one that does not fit; the message says which."""

    code = "kv_image_refused"


@dataclass(frozen=True)
class KvImage:
    """A sequence's state.

    Attributes:
        engine: the engine and version that computed it, such as `llamacpp 0.3.36`.
        model: digest of the model file.
        adapter: digest of the adapter set; empty: none.
        tokens: token ids, in order.
        state: as `Engine.export` gave it, or a view of what was read.
    """

    engine: str
    model: str
    adapter: str
    tokens: tuple[int, ...]
    state: bytes | memoryview

    def encode(self) -> bytes:
        """Return it as bytes."""
        ids = array.array("i", self.tokens)
        if sys.byteorder == "big":
            ids.byteswap()
        header = msgspec.msgpack.encode(
            _Header(self.engine, self.model, self.adapter, ids.tobytes(), len(self.state))
        )
        size = len(header).to_bytes(_SIZE_BYTES, "little")
        body = b"".join((_MAGIC, size, header, self.state))
        return body + hashlib.sha256(body).digest()

    @staticmethod
    def decode(data: bytes) -> "KvImage":
        """Read an image.

        Raises:
            ImageError: it is cut off, altered, or of another format.
        """
        at = len(_MAGIC) + _SIZE_BYTES
        if len(data) < at + _DIGEST_BYTES or not data.startswith(_MAGIC):
            raise ImageError(f"these {len(data)} bytes are no KV image of this version")
        # Views: a copy of megabytes takes longer than to read them.
        body, digest = memoryview(data)[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            raise ImageError(f"this KV image of {len(data)} bytes is cut off or was altered")
        size = int.from_bytes(body[len(_MAGIC) : at], "little")
        try:
            header = msgspec.msgpack.decode(body[at : at + size], type=_Header)
            ids = array.array("i", header.tokens)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ImageError(f"this KV image has no valid header: {error}") from error
        if sys.byteorder == "big":
            ids.byteswap()
        state = body[at + size :]
        if len(state) != header.state_bytes:
            raise ImageError(f"this KV image has {len(state)} of {header.state_bytes} state bytes")
        return KvImage(header.engine, header.model, header.adapter, tuple(ids), state)


class _Header(msgspec.Struct, frozen=True):
    engine: str
    model: str
    adapter: str
    tokens: bytes
    state_bytes: int


def save_image(path: Path, image: KvImage) -> None:
    """Write a file that only this user reads; its directory is made.

    Raises:
        OSError: it cannot be written, for a full disk say; a former file is as it was.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(image.encode())
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def load_image(path: Path, *, engine: str, model: str, adapter: str) -> KvImage:
    """Read a file that fits.

    Raises:
        ImageError: it is broken, or of another engine, model or adapter.
        OSError: it cannot be read.
    """
    image = KvImage.decode(path.read_bytes())
    for what, found, wanted in (
        ("engine", image.engine, engine),
        ("model", image.model, model),
        ("adapter", image.adapter, adapter),
    ):
        if found != wanted:
            raise ImageError(f"{path.name} is of {what} {found!r}; expected {wanted!r}")
    return image
