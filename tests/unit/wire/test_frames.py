"""Frames: whole or not at all, whatever the chunks."""

import socket

import anyio
import pytest

from sits.wire import (
    MAX_FRAME_BYTES,
    Cancel,
    Channel,
    ChatPrompt,
    Emitted,
    Failed,
    Finished,
    FinishReason,
    Frames,
    FrameSocket,
    FromWorker,
    Generate,
    Message,
    Piece,
    Stage,
    TemplatePrompt,
    ToWorker,
    Usage,
    WireError,
    encode_frame,
)

PIECE = Piece(3, "né", (7, 8), Stage.DECODE, 1500)
SENT = [
    Emitted("r1", PIECE),
    Finished("r1", FinishReason.STOP, Usage(5, 2)),
    Failed("r2", "overloaded", "too many", retryable=True),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_any_chunking_gives_the_same_messages(size: int) -> None:
    data = b"".join(map(encode_frame, SENT))
    frames: Frames[FromWorker] = Frames(FromWorker)
    got = [m for i in range(0, len(data), size) for m in frames.feed(data[i : i + size])]
    assert got == SENT


def test_requests_keep_their_prompts_form() -> None:
    asked = [
        Generate("a", ChatPrompt((Message("user", "hi"),))),
        Generate("b", TemplatePrompt("{{ q }}", {"q": [1, {"x": None}]}, system="s"), stop=("x",)),
        Cancel("a"),
    ]
    frames: Frames[ToWorker] = Frames(ToWorker)
    assert frames.feed(b"".join(map(encode_frame, asked))) == asked


def test_a_piece_is_six_values_on_the_wire() -> None:
    """msgpack's own bytes, by its specification: fixarray 6, then each value."""
    expected = b"\x96\x03\xa3n\xc3\xa9\x92\x07\x08\xa6decode\xcd\x05\xdc\x90"
    assert encode_frame(PIECE)[4:] == expected


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        (MAX_FRAME_BYTES + 1).to_bytes(4, "big"),
        b"\x00\x00\x00\x01\xc0",
        b"\x00\x00\x00\x00",
        encode_frame(Cancel("r")),
    ],
    ids=["huge", "over the limit", "nil", "empty", "of another link"],
)
def test_what_is_no_frame_of_the_link_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        Frames[FromWorker](FromWorker).feed(data)


def test_a_message_over_the_limit_is_not_sent() -> None:
    with pytest.raises(WireError, match="over the frame limit"):
        encode_frame(Cancel("x" * (MAX_FRAME_BYTES + 1)))


def test_the_socket_keeps_what_the_peer_does_not_take_yet() -> None:
    ours, theirs = socket.socketpair()
    sender: FrameSocket[ToWorker] = FrameSocket(ours, ToWorker)
    receiver: FrameSocket[FromWorker] = FrameSocket(theirs, FromWorker)
    message = Failed("r", "engine_error", "x" * 100_000)
    for _ in range(20):
        sender.send_nowait(message)
    kept = sender.wants_write
    assert kept
    got: list[FromWorker] = []
    while len(got) < 20:
        got += receiver.receive_nowait()
        sender.flush_nowait()
    assert got == [message] * 20
    assert not sender.wants_write
    sender.close()
    assert receiver.receive_nowait() == []
    assert receiver.closed
    assert receiver.fileno() >= 0, "a selector that knows the descriptor must be told first"
    receiver.close()
    assert receiver.fileno() == -1


def test_a_peer_that_never_reads_is_dropped() -> None:
    ours, theirs = socket.socketpair()
    sender: FrameSocket[ToWorker] = FrameSocket(ours, ToWorker)
    message = Failed("r", "engine_error", "x" * 1_000_000)
    for _ in range(20):
        sender.send_nowait(message)
    assert sender.closed
    sender.close()
    theirs.close()


def test_a_peer_that_sends_garbage_is_dropped_and_its_good_messages_kept() -> None:
    ours, theirs = socket.socketpair()
    receiver: FrameSocket[FromWorker] = FrameSocket(ours, FromWorker)
    theirs.sendall(encode_frame(SENT[0]))
    assert receiver.receive_nowait() == [SENT[0]]
    theirs.sendall(b"\xff" * 64)
    assert receiver.receive_nowait() == []
    assert receiver.closed
    receiver.close()
    theirs.close()


async def test_the_channel_and_the_socket_speak_the_same() -> None:
    ours, theirs = socket.socketpair()
    peer: FrameSocket[ToWorker] = FrameSocket(theirs, ToWorker)
    stream = await anyio.abc.UNIXSocketStream.from_socket(ours)
    async with Channel[FromWorker](stream, FromWorker) as channel:
        for message in SENT:
            peer.send_nowait(message)
        peer.close()
        assert [message async for message in channel] == SENT
