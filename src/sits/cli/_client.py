"""The platform's HTTP API, as the commands use it.

Where it is and with which key: `SITS_URL` and `SITS_API_KEY`, else what runs on this machine
(`$SITS_HOME`). The key of this machine goes to this machine's platform alone.
"""

import json
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2
import msgspec

from sits.cli._output import CliError, Refusal
from sits.node import Settings, running_node
from sits.trust import parse_key

_CONNECT_S = 5.0
_READ_S = 120.0


@dataclass(frozen=True)
class Stream:
    """A streamed answer: its headers, and its events as they come."""

    tier: str
    events: Iterator[dict[str, Any]]


class Api:
    """A platform, reached by URL with a key. Use as a context.

    Args:
        url: its base URL.
        key: one of its keys.
        transport: instead of the network.
        patience_s: the most that one step of a request may take; None: as long as is usual.
    """

    def __init__(
        self,
        url: str,
        key: str,
        transport: httpx2.BaseTransport | None = None,
        *,
        patience_s: float | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        if not key.isprintable() or not key.isascii() or " " in key:
            raise CliError("the key has characters that no key has; look at SITS_API_KEY")
        self._http = httpx2.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(patience_s or _READ_S, connect=patience_s or _CONNECT_S),
            trust_env=False,
            transport=transport,
            # Reading the machine's authorities takes 50 ms, and plain HTTP asks for none.
            verify=self.url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._http.close()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request and return the answer's JSON.

        Raises:
            CliError: it cannot be reached, or refuses; the message is its own.
        """
        with self._errors():
            response = self._http.request(method, path, json=body)
            if not response.is_success:
                raise _refusal(response)
            try:
                return msgspec.json.decode(response.content) if response.content else None
            except msgspec.DecodeError as error:
                raise CliError(f"{self.url} is no SITS; look at SITS_URL") from error

    @contextmanager
    def stream(self, path: str, body: Any) -> Iterator[Stream]:
        """Send a request whose answer is an event stream.

        Raises:
            CliError: as `request`, and when the stream ends before the answer does.
        """
        with self._errors(), self._http.stream("POST", path, json=body) as response:
            if not response.is_success:
                response.read()
                raise _refusal(response)
            yield Stream(response.headers.get("x-sits-tier", "unknown"), _events(response))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise CliError(
                f"the platform at {self.url} cannot be reached ({reason}); `sits up` starts it, "
                "`sits doctor` says what is wrong"
            ) from error


def connect(*, patience_s: float | None = None) -> Api:
    """Return the API of the platform that the environment names, or that runs here.

    Args:
        patience_s: see `Api`.

    Raises:
        CliError: none is named and none runs, or there is no key for it.
    """
    home = Settings().home
    node = running_node(home)
    url = _base_url(os.environ.get("SITS_URL", ""))
    key = os.environ.get("SITS_API_KEY", "")
    if not url:
        if node is None:
            raise CliError(
                f"no platform runs on {home}; start it with `sits up`, or name one with SITS_URL "
                "and SITS_API_KEY"
            )
        return Api(node.url, key or local_key(home), patience_s=patience_s)
    if not key and (node is None or node.url != url):
        # This machine's key is nobody else's to see.
        raise CliError(f"SITS_URL names {url}, and there is no key for it; give SITS_API_KEY")
    return Api(url, key or local_key(home), patience_s=patience_s)


def _base_url(text: str) -> str:
    url = text.strip().rstrip("/").removesuffix("/v1")
    if url and not url.startswith(("http://", "https://")):
        raise CliError(f"SITS_URL is {text!r}; expected such as http://127.0.0.1:7480")
    return url


def local_key(home: Path) -> str:
    """Return the key of the platform on a home directory. Raises `CliError` without one."""
    path = home / "key"
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(
            f"no key: {path} cannot be read ({error}); give one in SITS_API_KEY"
        ) from error
    if parse_key(text) is None:
        raise CliError(f"{path} does not hold a key; remove it and start the platform again")
    return text


def _events(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix("data: ")
        if data == line or not data:
            continue
        if data == "[DONE]":
            return
        event = json.loads(data)
        if "error" in event:
            raise CliError(f"the answer broke off: {event['error']['message']}")
        yield event
    raise CliError("the answer broke off: the connection was closed before its end")


def _refusal(response: httpx2.Response) -> CliError:
    try:
        error = response.json()["error"]
        param = error.get("param")
        known = param if isinstance(param, str) else None
        return Refusal(str(error["message"]), response.status_code, known)
    except (ValueError, LookupError, TypeError, AttributeError):
        return CliError(
            f"{response.url} answered {response.status_code} and no error of SITS; look at SITS_URL"
        )
