import hashlib
from dataclasses import dataclass
from unittest import mock

import pytest

from sits import trust


@dataclass(frozen=True)
class Record:
    secret_hash: str
    tenant: str = "default"


def test_a_new_key_verifies_against_its_own_record_only() -> None:
    first, second = trust.make_key(), trust.make_key()
    records = {key.key_id: Record(key.secret_hash, key.key_id) for key in (first, second)}
    assert trust.verify(first.text, records) is records[first.key_id]
    assert trust.verify(second.text, records) is records[second.key_id]


def test_the_stored_hash_is_sha256_of_the_secret_in_hex() -> None:
    # sha256("abc"), from FIPS 180-2.
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert trust.hash_secret("abc") == expected


def test_a_key_has_the_published_form_and_enough_randomness() -> None:
    key = trust.make_key()
    prefix, key_id, secret = key.text[:8], key.text[8:16], key.text[17:]
    assert (prefix, key_id, key.text[16]) == ("sk-sits-", key.key_id, "-")
    # url-safe base64 carries 6 bits a character.
    assert len(secret) * 6 >= 160
    assert hashlib.sha256(secret.encode()).hexdigest() == key.secret_hash


def test_the_secret_is_not_in_the_repr() -> None:
    key = trust.make_key()
    assert key.text[17:] not in repr(key)


def test_another_secret_with_a_known_id_is_refused() -> None:
    key, other = trust.make_key(), trust.make_key()
    forged = f"sk-sits-{key.key_id}-{other.text[17:]}"
    assert trust.verify(forged, {key.key_id: Record(key.secret_hash)}) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sk-sits-",
        "sk-sits-abcdefgh",
        "sk-sits-abcdefgh-",
        "sk-sits-ABCDEFGH-secret",
        "sk-sits-abc-secret",
        "sk-other-abcdefgh-secret",
        "sk-sits-abcdefgh-" + "x" * 300,
        "\ud800",
        "ключ",
    ],
)
def test_what_is_not_a_key_is_refused(text: str) -> None:
    assert trust.parse_key(text) is None
    assert trust.verify(text, {}) is None


def test_an_empty_secret_never_matches_even_a_record_that_hashes_it() -> None:
    assert trust.verify("", {"": Record(trust.hash_secret(""))}) is None


def test_a_secret_that_is_not_ascii_is_refused_without_an_error() -> None:
    key = trust.make_key()
    assert (
        trust.verify(f"sk-sits-{key.key_id}-\udcffé", {key.key_id: Record(key.secret_hash)}) is None
    )


@pytest.mark.parametrize("known", [True, False])
def test_known_and_unknown_ids_take_the_same_comparison(known: bool) -> None:
    key = trust.make_key()
    records = {key.key_id: Record(key.secret_hash)} if known else {}
    with mock.patch("hmac.compare_digest", return_value=False) as compare:
        assert trust.verify(key.text, records) is None
    ((given, stored), _) = compare.call_args
    assert len(given) == len(stored) == 64
