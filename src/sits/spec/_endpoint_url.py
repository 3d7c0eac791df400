"""The address of an endpoint elsewhere: which ones can be called, and what must not be shown.

Invariant: a message never has the part of an address in which people put keys (what stands
before the host, and the query): it goes to terminals and logs.
"""

import ipaddress
import re
from urllib.parse import urlsplit

from sits.spec._words import given

URL_WORDS = "a URL without a query, such as https://models.example/v1"
URL_PATTERN = r"^https?://([^\s/?#@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(/[^\s?#]*)?$"

_SECRET_WORDS = f"expected {URL_WORDS} (a key goes into a secret, which `secret` names)"
_SCHEME = re.compile(r"^(\w+)://")
_CALL = re.compile(r"(?<=[^/])/+(chat/completions|completions|embeddings|models)/*$", re.IGNORECASE)
_PORT = re.compile(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?")
_SHOWN_CHARS = 200


def hide_keys(value: object) -> object:
    """Refuse an address that may have a key in it, before a message could quote it.

    Raises:
        ValueError: it has; the message has not.
    """
    if not isinstance(value, str):
        return value
    plain = _without_user(value)
    if plain is not None:
        hint = _hint(re.sub(r"[?#].*", "", plain, flags=re.DOTALL))
        raise ValueError(f"has a user or a password before the host; {_SECRET_WORDS}{hint}")
    address, mark, _ = re.sub(r"[?#]", "?", value, count=1).partition("?")
    if mark:
        raise ValueError(f"has a query or a fragment; {_SECRET_WORDS}{_hint(address)}")
    return value


def check_base(url: str) -> str:
    """Return the address of an endpoint, if calls can be added to it.

    Args:
        url: matches `URL_PATTERN`.

    Raises:
        ValueError: it is that of one call, or none at all; the message says what to write.
    """
    try:
        parts = urlsplit(url)
        has_place = parts.port is None or parts.port > 0
    except ValueError:
        has_place = False
    if not has_place:
        raise ValueError(f"is {given(url)}, whose host or port is none; expected {URL_WORDS}")
    base = _CALL.sub("", url)
    if base != url:
        raise ValueError(
            f"is {given(url)}, which is the address of one call; expected the base URL, to which "
            f"the call is added{_hint(base)}"
        )
    return url


def is_in_the_clear(url: str) -> bool:
    """Return whether others may listen to what is sent there: http, and not to this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def _without_user(text: str) -> str | None:
    """Return an address without the user before its host; None: there is no user."""
    scheme, rest = "https", text
    if (found := _SCHEME.match(text)) is not None:
        scheme, rest = found[1], text[found.end() :]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        plain = authority.rpartition("@")[2] + rest[len(authority) :]
    elif "@" in rest and not _PORT.fullmatch(authority):
        # A password may have any character; what looks like a port is the beginning of it.
        plain = rest.rpartition("@")[2]
    else:
        return None
    return f"{scheme if scheme in {'http', 'https'} else 'https'}://{plain}"


def _hint(url: str) -> str:
    if not _SCHEME.match(url):
        url = f"https://{url}"
    is_fit = len(url) <= _SHOWN_CHARS and url.isprintable() and re.search(URL_PATTERN, url)
    return f": write {url}" if is_fit else ""
