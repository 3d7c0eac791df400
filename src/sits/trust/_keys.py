"""Keys: 160 random bits with a public name.

Invariants: a secret is in no repr, log line or error of this module; checking takes the same
work whether the id is known or not, so that time tells neither ids nor secrets.

The stored hash is one round of SHA-256, without salt. Slow, salted hashes protect passwords,
which people choose and reuse; 160 random bits cannot be guessed from a hash at any speed, and
a check runs on every request.
"""

import hashlib
import hmac
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

KEY_PREFIX = "sk-sits-"

# Lower case without 0, 1, i, l, o: the id is read aloud and typed.
_ID_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_ID_CHARS = 8
_SECRET_BYTES = 20
_MAX_KEY_CHARS = 256
_DUMMY_HASH = hashlib.sha256(b"no key has this id").hexdigest()


class StoredKey(Protocol):
    """What `verify` needs of a stored key, whoever stores it."""

    @property
    def secret_hash(self) -> str:
        """SHA-256 of the secret, in hex."""
        ...


Record = TypeVar("Record", bound=StoredKey)


@dataclass(frozen=True)
class NewKey:
    """A key at the one moment when its text is known.

    Attributes:
        text: the whole key, for its owner; not in the repr.
        key_id: the public part.
        secret_hash: what to store.
    """

    text: str = field(repr=False)
    key_id: str
    secret_hash: str


def make_key() -> NewKey:
    """Return a new key from the system's random source."""
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_CHARS))
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return NewKey(f"{KEY_PREFIX}{key_id}-{secret}", key_id, hash_secret(secret))


def hash_secret(secret: str) -> str:
    """Return the hex SHA-256 of a key's secret part."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


_SECRET_ALPHABET = frozenset(string.ascii_letters + string.digits + "-_")


def parse_key(text: str) -> tuple[str, str] | None:
    """Split a key into id and secret; None when it does not have a key's form."""
    if len(text) > _MAX_KEY_CHARS or not text.startswith(KEY_PREFIX):
        return None
    key_id, dash, secret = text[len(KEY_PREFIX) :].partition("-")
    if not (dash and secret and len(key_id) == _ID_CHARS and set(key_id) <= set(_ID_ALPHABET)):
        return None
    if not set(secret) <= _SECRET_ALPHABET:
        return None  # also a line break, which would end a header
    return key_id, secret


def verify(text: str, records: Mapping[str, Record]) -> Record | None:
    """Return the record of the key that `text` is, or None.

    Args:
        text: what the caller presented.
        records: stored keys by their ids.
    """
    parts = parse_key(text)
    key_id, secret = parts or ("", "")
    record = records.get(key_id)
    stored = record.secret_hash if record is not None else _DUMMY_HASH
    equal = hmac.compare_digest(hash_secret(secret).encode(), stored.encode())
    return record if equal and parts is not None else None
