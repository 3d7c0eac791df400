"""Who may call: keys, how they are made, stored and checked.

    make_key()      a new key: the text for its owner, the hash for the store
    parse_key()     a key's two parts, without saying whether it is any good
    hash_secret()   what is stored of a secret
    verify()        the record that a presented key proves, in constant time
    LOCAL_TENANT    who runs the platform, and what their secrets are called in the environment

A key is `sk-sits-<id>-<secret>`. The id is public (logs and lists show it); the secret is
shown once and never stored. Sealing and call contexts come here later.
"""

from sits.trust._keys import KEY_PREFIX, NewKey, StoredKey, hash_secret, make_key, parse_key, verify
from sits.trust._local import ENVIRONMENT_PREFIX, LOCAL_TENANT

__all__ = [
    "ENVIRONMENT_PREFIX",
    "KEY_PREFIX",
    "LOCAL_TENANT",
    "NewKey",
    "StoredKey",
    "hash_secret",
    "make_key",
    "parse_key",
    "verify",
]
