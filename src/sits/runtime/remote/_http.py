"""One call of one endpoint over HTTP: what is sent, how long it may take, what an error means.

Invariants: every wait has a deadline; TLS is verified; a redirect is not followed, so that the
key goes to the endpoint's own address and to no other; proxies and credentials of the
environment are not used; what is read of an answer is bounded; cancelling closes the
connection, which is how an endpoint learns that nobody listens any more; each call says how
often its request was passed on, so that one that comes back to this platform does not for ever.
"""

import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import msgspec

from sits._version import __version__
from sits.runtime.remote._chat import failure_of
from sits.runtime.remote._errors import CallerFault, EndpointDown, SecretError
from sits.runtime.remote._secrets import Secret
from sits.wire import HOPS_HEADER, RemoteEndpoint

# Another endpoint would say the same of such a request.
_CALLERS = frozenset({400, 413, 415, 422})
_KEY_REFUSED = frozenset({401, 403})
_THROTTLED = 429
_LOOP = 508

_WRITE_S = 10.0
_KEEP_ALIVE_S = 30.0
# What is left of a stream after its end: for the connection to be used again.
_REST_S = 0.05
_CLOSE_S = 1.0
_MAX_ERROR_BYTES = 64 * 1024
_MAX_MESSAGE_CHARS = 500

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Patience:
    """How long a call may take.

    Attributes:
        connect_s: seconds to a connection.
        first_byte_s: seconds of silence until an answer has begun.
        idle_s: seconds of silence from then on.
    """

    connect_s: float = 5.0
    first_byte_s: float = 30.0
    idle_s: float = 60.0


class Silence:
    """How long an endpoint may say nothing; the limit changes when its answer has begun."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self.begun = False

    @property
    def limit_s(self) -> float:
        """Seconds, now."""
        return self._patience.idle_s if self.begun else self._patience.first_byte_s


def make_client(
    context: ssl.SSLContext, patience: Patience, connections: int
) -> httpx2.AsyncClient:
    """Return a client for one instance's endpoints."""
    return httpx2.AsyncClient(
        verify=context,
        trust_env=False,
        follow_redirects=False,
        # Reading has the deadlines of `Silence`.
        timeout=httpx2.Timeout(
            connect=patience.connect_s, read=None, write=_WRITE_S, pool=patience.connect_s
        ),
        limits=httpx2.Limits(
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=_KEEP_ALIVE_S,
        ),
        headers={"user-agent": f"sits/{__version__}", "accept-encoding": "identity"},
    )


class Endpoint:
    """An endpoint and its key.

    Args:
        client: with which it is called.
        remote: its address.
        read_key: returns its key, None when it needs none; raises `SecretError`.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        remote: RemoteEndpoint,
        read_key: Callable[[], Secret | None],
    ) -> None:
        self.remote = remote
        self._client = client
        self._read_key = read_key
        self._secret: Secret | None = None
        self._base = remote.url.rstrip("/")

    def look_for_key(self) -> str:
        """Read the key unless it is there; return why it cannot be had, empty when it can."""
        if self._secret is None:
            try:
                self._secret = self._read_key()
            except SecretError as error:
                return str(error)
        return ""

    @asynccontextmanager
    async def post(
        self, path: str, body: dict[str, Any], silence: Silence, hops: int
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request and give its answer, whose status is 200; leaving closes it.

        Args:
            path: below the endpoint's base URL.
            body: the request's object.
            silence: how long it may say nothing.
            hops: how often the request was passed on before.

        Raises:
            EndpointDown: it cannot be reached, is silent, or fails; also in the middle.
            CallerFault: it refuses this request.
        """
        headers = {"content-type": "application/json", HOPS_HEADER: str(hops + 1)}
        if self._secret is not None:
            headers["authorization"] = f"Bearer {self._secret.reveal()}"
        try:
            request = self._client.build_request(
                "POST", self._base + path, content=_encode(body), headers=headers
            )
            with anyio.fail_after(silence.limit_s):
                response = await self._client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    raise self._refusal(response, await _read(response, silence))
                yield response
            finally:
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await response.aclose()
        except httpx2.ConnectTimeout as error:
            raise EndpointDown("no connection in time") from error
        except TimeoutError as error:
            raise EndpointDown(f"it was silent for {silence.limit_s:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            raise EndpointDown(self._say(str(error) or type(error).__name__)) from error

    async def pieces(
        self, response: httpx2.Response, silence: Silence
    ) -> AsyncGenerator[bytes, None]:
        """Give the answer's bytes as they come."""
        iterator = response.aiter_raw()
        while True:
            with anyio.fail_after(silence.limit_s):
                piece = await anext(iterator, None)
            if piece is None:
                return
            yield piece

    async def whole(
        self, response: httpx2.Response, silence: Silence, limit_bytes: int
    ) -> bytes | None:
        """Return the answer's body; None: it is longer than it may be."""
        parts, size = [], 0
        async with contextlib.aclosing(self.pieces(response, silence)) as pieces:
            async for piece in pieces:
                size += len(piece)
                if size > limit_bytes:
                    return None
                parts.append(piece)
        return b"".join(parts)

    def _refusal(self, response: httpx2.Response, body: bytes) -> EndpointDown | CallerFault:
        """Return what an answer that is no success means."""
        status = response.status_code
        if status in _KEY_REFUSED:
            self._renew_key()
            name = f"the secret {self._secret.name!r}" if self._secret else "a call without a key"
            return EndpointDown(f"it refuses {name} ({status})")
        if 300 <= status < 400:
            return EndpointDown(
                f"it redirects ({status}), which is not followed; name the address that it has now"
            )
        message = self._say(_message_of(body))
        error = _error_of(body)
        if status == _LOOP and isinstance(error, dict) and error.get("code") == "loop_detected":
            # Others would lead into it as well, each of them as often as this one.
            return CallerFault("loop_detected", message)
        if status in _CALLERS:
            known = failure_of(error)
            reason = known.reason if isinstance(known, CallerFault) else "invalid_request"
            return CallerFault(reason, message or f"the endpoint answered {status}")
        return EndpointDown(
            f"it answered {status}{': ' if message else ''}{message}",
            throttled=status == _THROTTLED,
            retry_after_s=_retry_after_s(response),
        )

    def _renew_key(self) -> None:
        """Read the key again, for the next call: it may have been replaced."""
        with contextlib.suppress(SecretError):
            self._secret = self._read_key()

    def _say(self, text: str) -> str:
        """Return what others said, short, of printable characters, and without the key."""
        if self._secret is not None:
            text = self._secret.hide_in(text)
        text = " ".join(text.split())
        text = "".join(character if character.isprintable() else "?" for character in text)
        return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[: _MAX_MESSAGE_CHARS - 1]}…"

    def explain(self, error: EndpointDown | CallerFault) -> EndpointDown | CallerFault:
        """Return an error that the answer's content gave, with its message made safe."""
        said = self._say(str(error))
        if isinstance(error, CallerFault):
            return CallerFault(error.reason, said)
        return EndpointDown(said, throttled=error.throttled)


async def use_up(pieces: AsyncIterator[bytes]) -> None:
    """Read what is left after the end of a stream, if it is there."""
    with anyio.move_on_after(_REST_S), contextlib.suppress(httpx2.HTTPError, OSError):
        async for _ in pieces:
            pass


async def _read(response: httpx2.Response, silence: Silence) -> bytes:
    """Return the beginning of an answer that is no success."""
    parts, size = [], 0
    with contextlib.suppress(TimeoutError), anyio.fail_after(silence.limit_s):
        async for piece in response.aiter_raw():
            parts.append(piece)
            size += len(piece)
            if size >= _MAX_ERROR_BYTES:
                break
    return b"".join(parts)[:_MAX_ERROR_BYTES]


def _error_of(body: bytes) -> Any:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return decoded.get("error", decoded) if isinstance(decoded, dict) else None


def _message_of(body: bytes) -> str:
    error = _error_of(body)
    if isinstance(error, dict):
        return str(error.get("message") or error.get("detail") or "")
    if isinstance(error, str):
        return error
    return ""


def _retry_after_s(response: httpx2.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0
