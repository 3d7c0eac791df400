"""The outermost part of the application: what holds for every request, whatever its route.

In this order: an id; no header twice that may be there once; a `Host` that is ours (a page in a
browser must not reach a gateway on the reader's own machine under a foreign name); a routing
table to know keys by; a key. And at the end one log line. Probes (`/livez`, `/readyz`) and the
pointer at `/` need no name, table or key: who asks them may know none, and they tell nothing.
"""

import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from sits.gateway._deadline import TIMEOUT_HEADER
from sits.gateway._errors import ApiError, shutting_down
from sits.gateway._exchange import EXCHANGE, Exchange, open_exchange
from sits.gateway._table import RoutingTable
from sits.wire import HOPS_HEADER

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN_PATHS = frozenset({"/", "/livez", "/readyz"})
# Two of one would leave it to chance (or to an attacker) which one is believed, here and in
# whatever stands before the gateway. Source: RFC 9112, section 3.2, for `Host`.
_ONCE = frozenset(
    {b"host", b"authorization", b"x-api-key"}
    | {name.encode("ascii") for name in (HOPS_HEADER, TIMEOUT_HEADER)}
)


class Edge:
    """Wraps the application in what every request needs.

    Args:
        app: the routes.
        table: the keys and units of now.
        allowed_hosts: see `Settings.allowed_hosts`.
        on_end: told of each request when it has ended, but for probes.
    """

    def __init__(
        self,
        app: App,
        table: RoutingTable,
        allowed_hosts: Collection[str],
        on_end: Callable[[Exchange], None],
    ) -> None:
        self._app = app
        self._on_end = on_end
        self._table = table
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # The server is told to offer neither WebSockets nor lifespan.
            raise RuntimeError(f"the gateway serves HTTP, not {scope['type']!r}")
        exchange = open_exchange(scope)
        scope[EXCHANGE] = exchange
        request_id = (b"x-request-id", exchange.request_id.encode("ascii"))

        async def send_marked(event: Event) -> None:
            if event["type"] == "http.response.start":
                exchange.status = event["status"]
                event["headers"] = [*event.get("headers", ()), request_id]
            await send(event)

        try:
            error = self._refusal(scope, exchange)
            if error is None:
                await self._app(scope, receive, send_marked)
            else:
                await send_error(send_marked, error, exchange)
        finally:
            if scope["path"] not in _OPEN_PATHS:  # probes come all the time and say nothing
                exchange.log_end(time.monotonic())
                self._on_end(exchange)

    def _refusal(self, scope: Scope, exchange: Exchange) -> ApiError | None:
        if (twice := _given_twice(scope["headers"])) is not None:
            return ApiError(
                400,
                "invalid_http",
                f"the request has the header {twice!r} more than once; send it once",
            )
        if scope["path"] in _OPEN_PATHS:
            return None
        host, key = _credentials(scope["headers"])
        if not self._is_ours(host):
            return ApiError(
                421,
                "misdirected_request",
                f"the request is for the host {host[:80]!r}, which is not served here; served "
                f"are: {', '.join(sorted(self._allowed_hosts))} (setting allowed_hosts)",
            )
        if self.draining:
            return shutting_down()
        if not self._table.ready:
            return ApiError(
                503, "not_ready", "the gateway has no routing table yet; try again in a moment"
            )
        tenant = self._table.tenant_of(key)
        if tenant is None:
            return _no_key(scope["headers"], given=bool(key))
        exchange.tenant = tenant
        return None

    def _is_ours(self, host: str) -> bool:
        host = host.lower()
        name, colon, port = host.rpartition(":")
        if not (colon and port.isdigit()):
            name = host
        return not self._allowed_hosts.isdisjoint({host, name.removesuffix("."), "*"})


async def send_error(send: Send, error: ApiError, exchange: Exchange) -> None:
    """Answer with an error."""
    exchange.error = error.error_code
    await send_document(send, error.status, error.body, error.headers)


async def send_document(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    """Answer with one whole document."""
    length = (b"content-length", str(len(body)).encode("ascii"))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _given_twice(headers: list[tuple[bytes, bytes]]) -> str | None:
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in seen:
            return name.decode("ascii")
        if name in _ONCE:
            seen.add(name)
    return None


def _credentials(headers: list[tuple[bytes, bytes]]) -> tuple[str, str]:
    """Return the host and the key that a request names, empty where it names none."""
    host = key = ""
    for name, value in headers:
        if name == b"host":
            host = value.decode("latin-1")
        elif name == b"x-api-key":
            key = key or value.decode("latin-1")
        elif name == b"authorization":
            scheme, _, rest = value.partition(b" ")
            if scheme.lower() == b"bearer":
                key = rest.strip().decode("latin-1")
    return host, key


def _no_key(headers: list[tuple[bytes, bytes]], *, given: bool) -> ApiError:
    if given:
        message = "the key is not one of this platform's, or is revoked; look at what was sent"
    elif any(name == b"authorization" for name, _ in headers):
        message = "the Authorization header is not of the form `Bearer sk-sits-...`"
    else:
        message = "the request has no key; send `Authorization: Bearer sk-sits-...`"
    return ApiError(
        401, "invalid_api_key", message, headers=[(b"www-authenticate", b'Bearer realm="sits"')]
    )
