"""The load generator: many requests at once over sockets of its own, in one thread.

It takes bytes and the time at which they came, and reads nothing in them while it measures: what
they say is taken apart afterwards. The same client asks the platform and its peers.
"""

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sits.bench._errors import BenchError

_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_READ_BYTES = 1 << 16
_CONNECT_S = 5.0
ANSWER_S = 240.0


@dataclass(frozen=True)
class Ask:
    """A request for a chat's answer.

    Attributes:
        port: on loopback.
        body: the JSON document.
        headers: beside those that every request has.
        after_s: when it is sent, from the beginning of its round.
    """

    port: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0

    def encode(self) -> bytes:
        """Return all bytes of the request."""
        body = json.dumps(self.body).encode()
        own = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        }
        lines = [f"{name}: {value}" for name, value in {**own, **self.headers}.items()]
        head = "\r\n".join(["POST /v1/chat/completions HTTP/1.1", *lines])
        return head.encode("ascii") + _HEAD_END + body


@dataclass
class Answer:
    """What came back, and when.

    Attributes:
        sent_s: when the last byte of the request was written.
        arrivals: (when, how many bytes there were then).
    """

    sent_s: float = 0.0
    data: bytearray = field(default_factory=bytearray)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    _body_at: int = -1
    _whole_at: int = 0

    def take(self, data: bytes, now_s: float) -> None:
        """Add what has arrived."""
        self.data += data
        self.arrivals.append((now_s, len(self.data)))

    @property
    def whole(self) -> bool:
        """Whether all of it is there."""
        if self._body_at < 0:
            head = self.data.find(_HEAD_END)
            if head < 0:
                return False
            self._body_at = head + len(_HEAD_END)
            length = self.headers.get("content-length")
            self._whole_at = self._body_at + int(length) if length else 0
        if self._whole_at:
            return len(self.data) >= self._whole_at
        # A body that ends here ends behind a line's end, be it the head's.
        return self.data.endswith(_LAST_CHUNK, self._body_at - 2)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(self.data.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        """The headers, by their names in lower case."""
        lines = self.data.partition(_HEAD_END)[0].decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        return {name.lower(): value.strip() for name, _, value in pairs}

    @property
    def first_piece_ms(self) -> float:
        """Milliseconds from the last byte of the request to the first text.

        Raises:
            BenchError: there is none.
        """
        return (self.pieces[0][0] - self.sent_s) * 1e3

    @property
    def pieces(self) -> list[tuple[float, str]]:
        """Every text that is not empty, with when it was there.

        Raises:
            BenchError: the answer is an error, or has no text.
        """
        found = [
            (when_s, str(text))
            for when_s, event in self.events()
            for choice in event.get("choices", ())
            if (text := choice.get("delta", {}).get("content"))
        ]
        if not found:
            raise BenchError(f"an answer has no text: {bytes(self.data[-500:])!r}")
        return found

    @property
    def usage(self) -> dict[str, Any]:
        """What the last event that has it says of the tokens; empty where none does."""
        given = [event["usage"] for _, event in self.events() if event.get("usage")]
        return dict(given[-1]) if given else {}

    @property
    def document(self) -> dict[str, Any]:
        """The answer that is no stream.

        Raises:
            BenchError: it is an error.
        """
        if self.status != 200:
            raise BenchError(f"a request was answered {bytes(self.data[:500])!r}")
        found = json.loads(self.data[self._body_at :])
        assert isinstance(found, dict)
        return found

    def events(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """Yield each event of the stream with when it was there.

        Raises:
            BenchError: the answer is no stream of events.
        """
        if self.status != 200:
            raise BenchError(f"a request was answered {bytes(self.data[:500])!r}")
        text = b""
        for when_s, payload in self._chunks():
            text += payload
            *blocks, text = text.replace(b"\r\n", b"\n").split(b"\n\n")
            for block in blocks:
                data = block.partition(b"data: ")[2]
                if data and data != b"[DONE]":
                    yield when_s, json.loads(data)

    def _chunks(self) -> Iterator[tuple[float, bytes]]:
        """Yield the payload of each chunk with when its last byte was there."""
        at = self.data.index(_HEAD_END) + len(_HEAD_END)
        arrivals = iter(self.arrivals)
        when_s, there = next(arrivals)
        while at < len(self.data):
            line = self.data.index(b"\r\n", at)
            size = int(self.data[at:line].partition(b";")[0], 16)
            if size == 0:
                return
            begin, end = line + 2, line + 2 + size
            while there < end:
                when_s, there = next(arrivals)
            yield when_s, bytes(self.data[begin:end])
            at = end + 2


def connect(port: int) -> socket.socket:
    """Return an open connection, which sends what it is given at once.

    Raises:
        OSError: nothing listens there.
    """
    sock = socket.create_connection(("127.0.0.1", port), _CONNECT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def ask(request: Ask) -> Answer:
    """Ask once, over a connection that is open before the clock starts.

    Raises:
        BenchError: the answer does not come whole.
    """
    return ask_all([request])[0]


def ask_all(requests: Sequence[Ask]) -> list[Answer]:
    """Ask all, each at its time, over connections of their own, and return the answers in order.

    Raises:
        BenchError: an answer does not come whole within `ANSWER_S`.
    """
    answers = [Answer() for _ in requests]
    encoded = [request.encode() for request in requests]
    with contextlib.ExitStack() as stack:
        try:
            sockets = [stack.enter_context(connect(request.port)) for request in requests]
            selector = stack.enter_context(selectors.DefaultSelector())
            _exchange(selector, requests, encoded, sockets, answers)
        except OSError as error:
            raise BenchError(f"a connection broke: {error!r}") from error
    return answers


def _exchange(
    selector: selectors.BaseSelector,
    requests: Sequence[Ask],
    encoded: Sequence[bytes],
    sockets: Sequence[socket.socket],
    answers: Sequence[Answer],
) -> None:
    began_s = time.perf_counter()
    later = sorted(range(len(requests)), key=lambda index: requests[index].after_s)
    while later or selector.get_map():
        now_s = time.perf_counter()
        if now_s - began_s > ANSWER_S:
            raise BenchError(f"not all of {len(requests)} answers were whole in {ANSWER_S:g} s")
        while later and requests[later[0]].after_s <= now_s - began_s:
            index = later.pop(0)
            sockets[index].sendall(encoded[index])
            answers[index].sent_s = time.perf_counter()
            selector.register(sockets[index], selectors.EVENT_READ, answers[index])
        due_s = began_s + requests[later[0]].after_s - now_s if later else 1.0
        for key, _ in selector.select(max(0.0, min(due_s, 1.0))):
            _receive(selector, key)


def _receive(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    sock, answer = key.fileobj, key.data
    assert isinstance(sock, socket.socket)
    data = sock.recv(_READ_BYTES)
    if data:
        answer.take(data, time.perf_counter())
    if answer.whole:
        selector.unregister(sock)
    elif not data:
        raise BenchError(f"an answer broke off: {bytes(answer.data[-500:])!r}")
