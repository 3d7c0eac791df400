"""The names of hosts and instances.

A host's name follows from its model's file, so that a control that starts anew knows it again.
An instance's is `chat-1f3a-0007`: the head of its unit's name for people, then control's life
and a count, so that no name comes twice. It is short, since sockets are named after it.
"""

import hashlib

_HEAD_CHARS = 20


def host_name(model_path: str) -> str:
    """Return the name of the host of a model's file: one file, one host."""
    return "h-" + hashlib.sha256(model_path.encode()).hexdigest()[:8]


class Names:
    """Names instances, each with a name of its own.

    Args:
        life: a number that no other life of control has.
    """

    def __init__(self, life: int) -> None:
        self._life = f"{life & 0xFFFF:04x}"
        self._count = 0

    def __call__(self, unit: str) -> str:
        """Return a new name for an instance of this unit."""
        self._count += 1
        return f"{unit[:_HEAD_CHARS]}-{self._life}-{self._count:04d}"
