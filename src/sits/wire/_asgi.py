"""The private ASGI extension by which one application serves HTTP/1.1 and, later, HTTP/3.

An answer's piece is more than bytes: where its time went belongs beside it, and HTTP/3 can
carry that without holding up the tokens. A server (or the adapter below) that offers
`PIECE_EXTENSION` in `scope["extensions"]` is sent `sits.response.piece` events: those of
`http.response.body` with `seq`, `stage` and `delay_us` added. Everywhere else the same piece
goes out as a plain body event. Source: the shape follows ASGI's own extensions
(`http.response.push`, `http.response.trailers`).
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sits.wire._worker import Piece

PIECE_EXTENSION = "sits.response.piece"

ScopeMap = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[ScopeMap, Receive, Send], Awaitable[None]]


async def send_piece(scope: ScopeMap, send: Send, body: bytes, piece: Piece) -> None:
    """Send one rendered piece, with its metadata where the server takes it."""
    if PIECE_EXTENSION in (scope.get("extensions") or {}):
        await send(
            {
                "type": PIECE_EXTENSION,
                "body": body,
                "seq": piece.seq,
                "stage": str(piece.stage),
                "delay_us": piece.delay_us,
            }
        )
    else:
        await send({"type": "http.response.body", "body": body, "more_body": True})


class PieceAdapter:
    """Offers the extension on a server without it and hands each piece to `on_piece`.

    This is the seam for HTTP/3: its server replaces this adapter and sends the metadata
    its own way. Here the metadata is observed (for metrics and logs) and the body goes on.
    """

    def __init__(self, app: App, on_piece: Callable[[MutableMapping[str, Any]], None]) -> None:
        self._app = app
        self._on_piece = on_piece

    async def __call__(self, scope: ScopeMap, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_plain(event: MutableMapping[str, Any]) -> None:
            if event["type"] == PIECE_EXTENSION:
                self._on_piece(event)
                event = {"type": "http.response.body", "body": event["body"], "more_body": True}
            await send(event)

        extensions = {**(scope.get("extensions") or {}), PIECE_EXTENSION: {}}
        await self._app({**scope, "extensions": extensions}, receive, send_plain)
