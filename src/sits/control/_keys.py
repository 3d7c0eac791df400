"""The local key: in a file that only the owner of the machine can read, so that the CLI works.

Invariants: after `ensure_local_key` the file's key is the only local one in force; the file is
whole or not there, whenever the process ends; the key itself is in no log line and no error.
"""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

from sits.control._errors import KeyFileError
from sits.store import KeyEntry, Store
from sits.trust import LOCAL_TENANT, NewKey, hash_secret, make_key, parse_key

LOCAL_KEY_NAME = "local"
_MAX_FILE_BYTES = 4096

log = logging.getLogger(__name__)


def ensure_local_key(
    store: Store, home: Path, now_s: float, make: Callable[[], NewKey] = make_key
) -> None:
    """Make the local key if there is none, and have the store know the one that there is.

    Args:
        store: where the hash is kept.
        home: the directory of the file `key`.
        now_s: Unix seconds.
        make: makes a new key.

    Raises:
        KeyFileError: what is there is not a key's file.
    """
    path = home / "key"
    text = _read(path)
    known = None if text is None else _known(store, path, text)
    if text is not None and known is None:
        key_id, secret = parse_key(text) or ("", "")
        store.add_key(_entry(key_id, hash_secret(secret), now_s), alone=True)
        log.info("local key registered key_id=%s", key_id)
    elif known is None or known.revoked_s is not None:
        key = make()
        store.add_key(_entry(key.key_id, key.secret_hash, now_s), alone=True)
        try:
            _write(path, key.text)
        except OSError as error:
            raise KeyFileError(
                f"{path} cannot be written: {error.strerror}; free some space there, or make the "
                "directory writable for this user, and start again"
            ) from error
        log.info("local key made key_id=%s path=%s", key.key_id, path)


def _known(store: Store, path: Path, text: str) -> KeyEntry | None:
    parts = parse_key(text)
    if parts is None:
        raise KeyFileError(
            f"{path} does not hold a key; expected one line that begins with 'sk-sits-': remove "
            "the file to have a new key made"
        )
    entry = store.key(parts[0])
    if entry is not None and entry.secret_hash != hash_secret(parts[1]):
        raise KeyFileError(
            f"{path} holds another secret than the key '{parts[0]}' was made with: remove the "
            "file to have a new key made"
        )
    return entry


def _entry(key_id: str, secret_hash: str, now_s: float) -> KeyEntry:
    return KeyEntry(key_id, secret_hash, LOCAL_TENANT, LOCAL_KEY_NAME, now_s)


def _read(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KeyFileError(
            f"{path} cannot be read: {error.strerror}; expected a file of this user: remove it "
            "to have a new key made"
        ) from error
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise KeyFileError(f"{path} is not a regular file: remove it")
        if info.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
            log.warning(
                "the local key could be read by others; its mode is 0600 now: if others use this "
                "machine, remove the file and restart to have a new key path=%s mode=%04o",
                path,
                stat.S_IMODE(info.st_mode),
            )
        return os.read(descriptor, _MAX_FILE_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o600), "w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
