"""The process that takes one model in: `python -m sits.models pull JSON`.

A process of its own, so that a download holds up nobody, and that the memory and the libraries
which it takes are gone when it is done.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sits._process import die_with_parent, set_process_name
from sits.models._errors import ModelError
from sits.models._store import ModelStore, PullOrder
from sits.models._types import PullProgress


def main(arguments: Sequence[str]) -> int:
    """Pull what the order says; return the exit status: 0 done, 1 failed, 2 wrong use."""
    if len(arguments) != 2 or arguments[0] != "pull":
        sys.stderr.write("expected two arguments, `pull` and the order as JSON\n")
        return 2
    try:
        order = msgspec.json.decode(arguments[1], type=PullOrder)
    except msgspec.MsgspecError as error:
        sys.stderr.write(f"the order cannot be read: {error}\n")
        return 2
    die_with_parent(order.parent_pid)
    set_process_name("sits-pull")
    try:
        store = ModelStore(Path(order.root), prepare=order.prepare, hub=order.hub)
        store.pull(order.pin, _write)
    except ModelError:
        return 1
    return 0


def _write(progress: PullProgress) -> None:
    sys.stdout.write(msgspec.json.encode(progress).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
