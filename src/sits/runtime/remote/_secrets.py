"""Secrets by name: from files of the tenant, or from the environment of the platform.

Invariants: a value is never in a message, a log line or a `repr`; a file is read only where the
platform's own user alone can read it, and only inside the tenant's own directory; the environment
belongs to who runs the platform, so only the local tenant is served from it: another could have
it sent to an endpoint of its own.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from sits.runtime.remote._errors import SecretError
from sits.trust import ENVIRONMENT_PREFIX, LOCAL_TENANT

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# What may stand in a header, and nothing that could end it.
_VALUE = re.compile(r"[!-~]+")
_MAX_BYTES = 16 * 1024


class Secret:
    """A value that is shown to nobody by accident."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value

    def reveal(self) -> str:
        """Return the value, for the one place that sends it."""
        return self._value

    def hide_in(self, text: str) -> str:
        """Return a text without the value, should it be in it."""
        return text.replace(self._value, "[secret]")

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"


def read_secret(
    name: str, *, tenant: str, directory: Path, environment: Mapping[str, str]
) -> Secret:
    """Return a tenant's secret.

    Args:
        name: a DNS label.
        tenant: whose it is.
        directory: of all tenants' secrets; a tenant's file is `<directory>/<tenant>/<name>`.
        environment: has `SITS_SECRET_<NAME>`, for the local tenant where it has no such file.

    Raises:
        SecretError: there is none, or it cannot be used.
    """
    for what, text in (("secret's name", name), ("tenant's name", tenant)):
        if not _NAME.fullmatch(text):
            raise SecretError(f"the {what} is {text[:80]!r}; expected a DNS label")
    path = directory / tenant / name
    value = _read_file(path)
    variable = ENVIRONMENT_PREFIX + name.upper().replace("-", "_")
    if value is None and tenant == LOCAL_TENANT:
        value = environment.get(variable)
    if value is None:
        or_variable = f", or start `sits up` with {variable} set" if tenant == LOCAL_TENANT else ""
        raise SecretError(
            f"there is no secret {name!r} of the tenant {tenant!r}: write it to {path} (readable "
            f"by its owner alone: chmod 600), where the next request finds it{or_variable}"
        )
    value = value.strip()
    if not _VALUE.fullmatch(value):
        raise SecretError(
            f"the secret {name!r} is empty or holds a character that no key has; expected one "
            "line of printable ASCII without spaces"
        )
    return Secret(name, value)


def _read_file(path: Path) -> str | None:
    """Return a file's content, None when there is none. Follows no link on the last two steps."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(path.parent, flags | os.O_DIRECTORY)
        try:
            descriptor = os.open(path.name, flags | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SecretError(
            f"the secret's file {path} cannot be read: {error.strerror}; expected a plain file "
            "of this user in a plain directory"
        ) from error
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            raise SecretError(
                f"the secret's file {path} is no plain file of at most {_MAX_BYTES} bytes; write "
                "the key into a file of its own"
            )
        if found.st_uid != os.geteuid():
            raise SecretError(
                f"the secret's file {path} belongs to the user {found.st_uid}, who can read and "
                f"change it; expected one of the user {os.geteuid()}, who runs the platform"
            )
        if found.st_mode & 0o077:
            raise SecretError(
                f"the secret's file {path} has the mode {stat.S_IMODE(found.st_mode):04o}, so "
                f"others can read or change it; run chmod 600 {path}, and renew the key if they "
                "may have"
            )
        return file.read().decode("utf-8", "replace")
