"""`/api/v1/...`: handed on to the control API, which listens on a unix socket only.

The key has been checked by then; control believes the tenant that is named in
`x-sits-tenant`, so a caller's own header of that name never gets there: only the headers that
control reads do (`_SENT_ON`). A request's body is read whole first (it is small, and bounded);
an answer's is passed on as it comes.

What changes something waits for the link to control. Control answers it when every gateway that
is connected has taken the change: one that was started anew would not know of this one yet, and
what was just deployed would be unknown here.
"""

import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
import httpx2

from sits.gateway._body import ClientGoneError, read_body
from sits.gateway._disconnect import while_connected
from sits.gateway._edge import App, Receive, Scope, Send
from sits.gateway._errors import ApiError
from sits.gateway._exchange import EXCHANGE, Exchange
from sits.gateway._settings import Settings

TENANT_HEADER = b"x-sits-tenant"

_CONNECT_S = 2.0
_LINK_S = 2.0
_READS = frozenset({"GET", "HEAD", "OPTIONS"})

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_SENT_ON = frozenset({b"accept", b"content-type", b"idempotency-key", b"if-match", b"traceparent"})


class Linked:
    """Hands requests on to an application; those that change something when the link is there.

    Args:
        app: the `ControlProxy`.
        wait_until_linked: returns when control waits for this gateway.
    """

    def __init__(self, app: App, wait_until_linked: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._wait_until_linked = wait_until_linked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in _READS:
            try:
                with anyio.fail_after(_LINK_S):
                    await self._wait_until_linked()
            except TimeoutError as error:
                raise _unavailable() from error
        await self._app(scope, receive, send)


class ControlProxy:
    """Hands requests on to the control API. An async context: it keeps connections.

    Args:
        settings: the socket, and limits.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(
                uds=settings.control_api_socket,
                # Reading the machine's authorities takes 50 ms of a start, and a socket has none.
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            ),
            timeout=httpx2.Timeout(settings.api_s, connect=_CONNECT_S),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(exc_type, exc, traceback)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(
                scope["headers"],
                receive,
                max_bytes=self._settings.max_body_bytes,
                within_s=self._settings.body_s,
            )
        except ClientGoneError:
            return
        request = self._request(scope, body)
        await while_connected(receive, lambda: self._forward(request, send))

    def _request(self, scope: Scope, body: bytes) -> httpx2.Request:
        exchange: Exchange = scope[EXCHANGE]
        target = scope["raw_path"]
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        headers = [
            (name, value.strip(b" \t")) for name, value in scope["headers"] if name in _SENT_ON
        ]
        headers += [
            (b"host", b"control"),
            (b"content-length", str(len(body)).encode("ascii")),
            (b"x-request-id", exchange.request_id.encode("ascii")),
            (TENANT_HEADER, exchange.tenant.encode("utf-8")),
        ]
        try:
            url = httpx2.URL(scheme="http", host="control", raw_path=target)
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise _not_sendable(error) from error
        return httpx2.Request(scope["method"], url, headers=headers, content=body)

    async def _forward(self, request: httpx2.Request, send: Send) -> None:
        started = False
        try:
            response = await self._client.send(request, stream=True)
            try:
                headers = [
                    (name.lower(), value)
                    for name, value in response.headers.raw
                    if name.lower() not in _HOP_BY_HOP and name.lower() != b"x-request-id"
                ]
                started = True
                await send(
                    {
                        "type": "http.response.start",
                        "status": response.status_code,
                        "headers": headers,
                    }
                )
                async for part in response.aiter_raw():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                await response.aclose()
        except (httpx2.TransportError, OSError) as error:
            if started:
                # What the client has got is cut short: it sees a broken connection, as it should.
                raise
            if isinstance(error, httpx2.LocalProtocolError):
                # Refused on our side: control has not seen it, and trying again would not help.
                raise _not_sendable(error) from error
            raise _unavailable() from error


def _unavailable() -> ApiError:
    return ApiError(
        503,
        "control_unavailable",
        "the control API does not answer; units that run go on serving; try again",
    )


def _not_sendable(error: Exception) -> ApiError:
    return ApiError(
        400,
        "invalid_http",
        f"the request cannot be handed on to the control API: {error}; percent-encode its path "
        "and query, and send plain text in its headers",
    )
