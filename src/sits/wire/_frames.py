"""The frame codec: length-prefixed msgpack, decoded as it arrives in chunks of any size.

Invariants: a frame is decoded once and whole; a frame that is too long or not of the link's
types raises before anything of it is used, and the link is then of no further use.
"""

from typing import Any, Generic, TypeVar

import msgspec

from sits._errors import SitsError

MAX_FRAME_BYTES = 16 * 1024 * 1024
_HEADER_BYTES = 4

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()


class WireError(SitsError):
    """A peer sent what is not a frame of this link."""

    code = "wire_error"


def encode_frame(message: msgspec.Struct) -> bytes:
    """Return one frame. Raises `WireError` when the message is over `MAX_FRAME_BYTES`."""
    buffer = bytearray(_HEADER_BYTES)
    _encoder.encode_into(message, buffer, _HEADER_BYTES)
    size = len(buffer) - _HEADER_BYTES
    if size > MAX_FRAME_BYTES:
        raise WireError(
            f"a {type(message).__name__} of {size} bytes is over the frame limit of "
            f"{MAX_FRAME_BYTES} bytes; send less in one message"
        )
    buffer[:_HEADER_BYTES] = size.to_bytes(_HEADER_BYTES, "big")
    return bytes(buffer)


class Frames(Generic[T]):
    """Decodes one direction of one link, keeping what is not yet a whole frame.

    Args:
        types: the union of message types that the peer may send.
    """

    def __init__(self, types: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(types)
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[T]:
        """Take the next bytes and return the messages that they complete.

        Raises:
            WireError: a frame is over the limit or not of this link's types.
        """
        self._pending += data
        messages: list[T] = []
        start = 0
        while len(self._pending) - start >= _HEADER_BYTES:
            size = int.from_bytes(self._pending[start : start + _HEADER_BYTES], "big")
            if size > MAX_FRAME_BYTES:
                raise WireError(
                    f"a peer announced a frame of {size} bytes; at most {MAX_FRAME_BYTES} are taken"
                )
            end = start + _HEADER_BYTES + size
            if len(self._pending) < end:
                break
            messages.append(self._decode(bytes(self._pending[start + _HEADER_BYTES : end])))
            start = end
        del self._pending[:start]
        return messages

    def _decode(self, body: bytes) -> T:
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise WireError(f"a peer sent a frame that this link does not know: {error}") from error
