"""HTTP/1.1 on one connection, within bounds that the server's own protocol does not have.

Invariants:

- A connection is closed `header_s` after it opened, or after the first bytes of a next request
  (or of what is left of an answered one's body), unless a request's head is whole by then. An
  idle connection between two requests is the server's own affair (`keep_alive_s`).
- A head is of bounded size, and so is the number of connections.
- What fails before there is a request is told in the same form as every other error; nothing
  is written into an answer that has begun.
- A client that leaves is told to the request that runs, also when others wait behind it.

Not here: the body's time and size, which `_body` bounds.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sits.gateway._errors import ApiError
from sits.gateway._settings import Settings

_MAX_HEAD_BYTES = 64 * 1024
_TELL_EVERY_S = 10.0

log = logging.getLogger(__name__)


class Doors:
    """What the connections of one gateway share.

    Args:
        settings: the limits.
    """

    def __init__(self, settings: Settings) -> None:
        self.header_s = settings.header_s
        self.max_connections = settings.max_connections
        self._told_s: float | None = None

    def admit(self, connections: int, now_s: float) -> bool:
        """Say whether a connection may stay, `connections` being all that are open with it."""
        if connections <= self.max_connections:
            return True
        # A flood must not fill the log as well.
        if self._told_s is None or now_s - self._told_s >= _TELL_EVERY_S:
            self._told_s = now_s
            log.warning("event=connections_refused max_connections=%d", self.max_connections)
        return False


def make_protocol(settings: Settings) -> Callable[..., "BoundedProtocol"]:
    """Return what makes a connection's protocol, as the server calls it."""
    return partial(BoundedProtocol, Doors(settings))


class BoundedProtocol(HttpToolsProtocol):
    """One connection.

    Args:
        doors: the limits.
        given: what the server gives to its protocols.
    """

    def __init__(self, doors: Doors, **given: Any) -> None:
        super().__init__(**given)
        self._doors = doors
        self._running: RequestResponseCycle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_head = False
        self._in_body = False

    @property
    def _busy(self) -> bool:
        return self._running is not None and not self._running.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Answer 503 and close when there are too many; else wait for a request."""
        super().connection_made(transport)
        if self._doors.admit(len(self.connections), self.loop.time()):
            self._await_head()
        else:
            self.connections.discard(self)
            self._end_with(_too_many(self._doors.max_connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that runs, which is not always the last that came."""
        self._stop_timer()
        self._disconnect_running()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; bytes that do not end a head have to be followed by the rest in time."""
        was_in_head = self._in_head
        super().data_received(data)
        if self.transport.is_closing():
            return
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
        if self._head_bytes > _MAX_HEAD_BYTES:
            self._end_with(_head_too_large())
        elif not self._busy:
            self._await_head()

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, without the white space behind its value, which is no part of it."""
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """End a head: the request begins."""
        self._in_head, self._in_body = False, True
        self._head_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a body."""
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for the rest of what has come of it."""
        super().on_response_complete()
        if not (self.transport.is_closing() or self._busy) and (self._in_head or self._in_body):
            self._await_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._end_with(_malformed())

    def _unsupported_upgrade_warning(self) -> None:
        # The request is answered as if it had not asked, as HTTP wants it; to install something,
        # as the server advises in its log, is not what the operator should do.
        log.debug("event=upgrade_ignored")

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._doors.header_s, self._head_is_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._in_head:
            self._end_with(_head_late(self._doors.header_s))
        else:
            # Nothing was asked, or it was answered long ago: there is nothing to tell.
            self.transport.close()

    def _end_with(self, error: ApiError) -> None:
        """Answer with an error, unless an answer has begun, and close."""
        self._stop_timer()
        if not (self._busy and self._running is not None and self._running.response_started):
            self.transport.write(_render(error, self.server_state.default_headers))
        self._disconnect_running()
        self.transport.close()

    def _disconnect_running(self) -> None:
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()


def _render(error: ApiError, default_headers: list[tuple[bytes, bytes]]) -> bytes:
    body = error.body
    headers = [
        *default_headers,
        *error.headers,
        (b"content-length", str(len(body)).encode("ascii")),
        (b"connection", b"close"),
    ]
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode("ascii")]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join([*lines, b"", body])


def _too_many(limit: int) -> ApiError:
    return ApiError(
        503,
        "too_many_connections",
        f"{limit} connections are open already, which is the limit here; close those that you "
        "do not use, and try again in a moment",
    )


def _head_late(limit_s: float) -> ApiError:
    return ApiError(
        408,
        "header_timeout",
        f"the request's headers were not there after {limit_s:g} s; send the request again, whole",
    )


def _head_too_large() -> ApiError:
    return ApiError(
        431,
        "header_too_large",
        f"the request's headers are longer than {_MAX_HEAD_BYTES} bytes, which is the limit here; "
        "send shorter ones",
    )


def _malformed() -> ApiError:
    return ApiError(
        400,
        "invalid_http",
        "what was sent is no HTTP/1.1 request; expected a request line, headers and a body of "
        "the length that they tell; check what the client sends, and that it speaks http, not "
        "https, to this port",
    )
