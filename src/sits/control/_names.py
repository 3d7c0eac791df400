"""The names of hosts and instances, from which a control that starts anew knows them again.

A host's name follows from its model's file. An instance's is `chat-0007-1f3a9c2e-0003`: the
head of its unit's name for people, control's life and a count so that no name comes twice, and
a tag of its tenant and unit. Names are short, since sockets are named after them.
"""

import hashlib

UnitKey = tuple[str, str]  # (tenant, unit's name)

_HEAD_CHARS = 20


def host_name(model_path: str) -> str:
    """Return the name of the host of a model's file: one file, one host."""
    return "h-" + hashlib.sha256(model_path.encode()).hexdigest()[:8]


def unit_tag(key: UnitKey) -> str:
    """Return the part of an instance's name that says whose it is."""
    return hashlib.sha256("\0".join(key).encode()).hexdigest()[:8]


def is_named_for(instance: str, key: UnitKey) -> bool:
    """Return whether an instance of this name is this unit's, by its tag and its head."""
    parts = instance.rsplit("-", 3)
    return len(parts) == 4 and parts[0] == _head(key) and parts[2] == unit_tag(key)


class Names:
    """Names instances, each with a name of its own.

    Args:
        life: a number that no other life of control has.
    """

    def __init__(self, life: int) -> None:
        self._life = f"{life & 0xFFFF:04x}"
        self._count = 0

    def __call__(self, key: UnitKey) -> str:
        """Return a new name for an instance of this unit."""
        self._count += 1
        return f"{_head(key)}-{self._life}-{unit_tag(key)}-{self._count:04d}"


def _head(key: UnitKey) -> str:
    return key[1][:_HEAD_CHARS]
