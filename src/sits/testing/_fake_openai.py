"""An endpoint that speaks OpenAI's API, on loopback, and fails in every way that one is told.

It answers as `FakeModel` does: with the words of the last message, and one token counted for
each byte. Its vectors are those of the fake embedding model. A real HTTP server on a thread of
its own, so that processes under test can call it.
"""

import json
import select
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from sits.runtime.engine import EmbeddingShape
from sits.testing._fake_engine import FakeBehaviour, FakeEmbeddingEngine, FakeModel

# Around each turn and before the answer, as the fake model's chat template puts them.
_MARKS_A_TURN = 2
_MARKS_BEFORE_ANSWER = 1
_POLL_S = 0.005


@dataclass
class FakeEndpointBehaviour:
    """How the endpoint behaves; may be changed while it runs.

    Attributes:
        status: of every answer; another than 200 sends `error` as its body.
        error: the `error` object of such an answer, and of an error event.
        headers: sent besides the usual ones.
        silent_s: seconds of silence before an answer begins.
        pause_s: seconds before each piece.
        silent_after: so many pieces, then nothing more; None: all.
        cut_after: so many pieces, then the connection ends; None: all.
        error_after: so many pieces, then an error event; None: all.
        raw: the bytes of the stream instead of an answer's events.
        chunk_bytes: the stream goes out in chunks of so many bytes; 0: one an event.
        usage: whether it counts tokens.
        context_tokens: a longer prompt is refused, as OpenAI does.
        key: the one that it takes; None: it asks for none.
    """

    status: int = 200
    error: Any = field(default_factory=lambda: {"message": "as the test says", "type": "fake"})
    headers: dict[str, str] = field(default_factory=dict)
    silent_s: float = 0.0
    pause_s: float = 0.0
    silent_after: int | None = None
    cut_after: int | None = None
    error_after: int | None = None
    raw: bytes | None = None
    chunk_bytes: int = 0
    usage: bool = True
    context_tokens: int = 2048
    key: str | None = None


@dataclass(frozen=True)
class FakeRequest:
    """What the endpoint was asked."""

    path: str
    headers: dict[str, str]
    body: Any


class FakeOpenAI:
    """The endpoint; a context manager that runs it.

    Args:
        behaviour: how it behaves.
        tls: with its certificate, for https.

    Attributes:
        behaviour: as given; may be changed.
        requests: what it was asked, in order.
        left: how many clients closed before their answer was whole.
        open: how many requests it is answering.
    """

    def __init__(
        self,
        behaviour: FakeEndpointBehaviour | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.behaviour = behaviour or FakeEndpointBehaviour()
        self.requests: list[FakeRequest] = []
        self.left = 0
        self.open = 0
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="fake-openai"
        )

    @property
    def url(self) -> str:
        """The endpoint's base URL."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        """Give the port back, where the endpoint was never run. Idempotent."""
        self._server.server_close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self.close()


class _LeftError(Exception):
    """The client is gone, or the test is over."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    # Headers and body go out in one segment each, and do not wait for an acknowledgement.
    disable_nagle_algorithm = True
    fake: FakeOpenAI

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer a request."""
        fake = self.fake
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with fake.lock:
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.requests.append(FakeRequest(self.path, headers, body))
            fake.open += 1
        try:
            self._wait(fake.behaviour.silent_s)
            self._answer(body)
        except (_LeftError, OSError):
            self.close_connection = True
            with fake.lock:
                fake.left += 1
        finally:
            with fake.lock:
                fake.open -= 1

    def _answer(self, body: Any) -> None:
        behaviour = self.fake.behaviour
        status, error = behaviour.status, behaviour.error
        if behaviour.key is not None and self.headers["authorization"] != f"Bearer {behaviour.key}":
            status, error = 401, {"message": f"no such key: {self.headers['authorization']}"}
        elif self.path.endswith("/chat/completions"):
            tokens = _prompt_tokens(body["messages"])
            if tokens > behaviour.context_tokens:
                status = 400
                error = {
                    "message": f"{tokens} tokens are over the {behaviour.context_tokens} here",
                    "type": "invalid_request_error",
                    "code": "context_length_exceeded",
                }
        if status != 200:
            self._document(status, {"error": error})
        elif self.path.endswith("/embeddings"):
            self._document(200, _vectors(body))
        else:
            self._stream(body)

    def _document(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self._begin(status, "application/json", {"content-length": str(len(data))})
        self.wfile.write(data)

    def _begin(self, status: int, content_type: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        given = {"content-type": content_type, **headers, **self.fake.behaviour.headers}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, body: Any) -> None:
        behaviour = self.fake.behaviour
        self._begin(200, "text/event-stream", {"transfer-encoding": "chunked"})
        if behaviour.raw is not None:
            self._send(behaviour.raw)
        else:
            for count, event in enumerate(_events(body, behaviour)):
                self._wait(behaviour.pause_s)
                if count == behaviour.silent_after:
                    self._wait(float("inf"))
                if count == behaviour.error_after:
                    self._send(_event({"error": behaviour.error}))
                    break
                if count == behaviour.cut_after:
                    self.close_connection = True
                    return
                self._send(event)
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, data: bytes) -> None:
        size = self.fake.behaviour.chunk_bytes or len(data)
        for start in range(0, len(data), size):
            chunk = data[start : start + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))

    def _wait(self, seconds: float) -> None:
        """Wait, unless the client leaves or the test ends."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.fake.stopping.is_set():
                raise _LeftError
            # Nothing comes from a client that waits for its answer, but its end.
            if select.select([self.connection], [], [], min(left, _POLL_S))[0]:
                raise _LeftError


def _handler_of(fake: FakeOpenAI) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"fake": fake})


def _prompt_tokens(messages: list[dict[str, str]]) -> int:
    said = sum(len(each["content"].encode()) + _MARKS_A_TURN for each in messages)
    return said + _MARKS_BEFORE_ANSWER


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _events(body: Any, behaviour: FakeEndpointBehaviour) -> Iterator[bytes]:
    """Give an answer's events: one for each character, the reason, the usage, the end."""
    words: str = body["messages"][-1]["content"]
    limit = body.get("max_tokens")
    shown = words if limit is None else words[:limit]

    def event(**fields: Any) -> bytes:
        return _event({"object": "chat.completion.chunk", "model": body["model"], **fields})

    for number, character in enumerate(shown):
        role = {} if number else {"role": "assistant"}
        delta = {**role, "content": character}
        yield event(choices=[{"index": 0, "delta": delta, "finish_reason": None}])
    reason = "stop" if shown == words else "length"
    yield event(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])
    if behaviour.usage and (body.get("stream_options") or {}).get("include_usage"):
        counted = {
            "prompt_tokens": _prompt_tokens(body["messages"]),
            "completion_tokens": len(shown.encode()),
        }
        yield event(choices=[], usage=counted)
    yield b"data: [DONE]\n\n"


def _vectors(body: Any) -> dict[str, Any]:
    given = body["input"]
    inputs = given if isinstance(given, list) else [given]
    model = FakeModel(FakeBehaviour(embedding=True))
    tokens = [
        model.tokenize(each, parse_special=False, add_special=True)
        if isinstance(each, str)
        else list(each)
        for each in inputs
    ]
    longest = max(map(len, tokens))
    engine = FakeEmbeddingEngine(model, EmbeddingShape(1, longest, longest))
    data = []
    for index, each in enumerate(tokens):
        (vector,) = engine.embed([each])
        values = list(memoryview(vector).cast("f"))
        data.append({"object": "embedding", "index": index, "embedding": values})
    total = sum(map(len, tokens))
    usage = {"prompt_tokens": total, "total_tokens": total}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}
