"""The names of hosts and instances.

A host's name follows from what it serves, so that a control that starts anew knows it again.
An instance's is `chat-1f3a-0007`: the head of its unit's name for people, then control's life
and a count, so that no name comes twice; then, where instances on one host differ, what it was
started with (`.1c2d3e`), so that also an instance that was taken over tells. It is short, since
sockets are named after it.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from sits.wire import RemoteEndpoint

_HEAD_CHARS = 20
_VARIANT_CHARS = 6


def host_name(model_path: str) -> str:
    """Return the name of the host of a model's file: one file, one host."""
    return "h-" + _hash(model_path.encode())[:8]


def remote_host_name(tenant: str) -> str:
    """Return the name of the host of a tenant's endpoints elsewhere: one tenant, one host."""
    return "r-" + _hash(tenant.encode())[:8]


def variant_name(
    remotes: Sequence[RemoteEndpoint],
    itl_ms: float | None = None,
    adapters: Sequence[tuple[str, int]] = (),
) -> str:
    """Return what tells instances from others on the same host; empty for plain ones.

    Args:
        remotes: their endpoints elsewhere.
        itl_ms: their objective for the time between two tokens.
        adapters: the digest and the share of each of their adapters.
    """
    if not remotes and itl_ms is None and not adapters:
        return ""
    return _hash(msgspec.json.encode((remotes, itl_ms, *adapters)))[:_VARIANT_CHARS]


def variant_of(instance: str) -> str:
    """Return the variant that an instance's name tells."""
    return instance.partition(".")[2]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Names:
    """Names instances, each with a name of its own.

    Args:
        life: a number that no other life of control has.
    """

    def __init__(self, life: int) -> None:
        self._life = f"{life & 0xFFFF:04x}"
        self._count = 0

    def __call__(self, unit: str, variant: str = "") -> str:
        """Return a new name for an instance of this unit."""
        self._count += 1
        name = f"{unit[:_HEAD_CHARS]}-{self._life}-{self._count:04d}"
        return f"{name}.{variant}" if variant else name
