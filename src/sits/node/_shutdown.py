"""The order to end, given to the node of a home directory over its socket."""

import os
import socket
import time
from pathlib import Path

from sits.node._home import NodeError, RunningNode, running_node
from sits.wire import Shutdown, encode_frame

_END_S = 10.0
_POLL_S = 0.02


def shut_down(home: Path) -> bool:
    """End the node of a home directory and wait until it has.

    Returns:
        False when none was running.

    Raises:
        NodeError: it did not end in time.
    """
    node = running_node(home)
    if node is None:
        return False
    asked = False
    until_s = time.monotonic() + _END_S
    while node is not None:
        # A node that has just started says a moment later where its socket is.
        if not asked and node.run_dir and _ask_to_end(node):
            asked = True
            until_s = time.monotonic() + node.drain_s + _END_S
        if time.monotonic() > until_s:
            raise NodeError(f"the platform {node.url} on {home} did not end in time")
        time.sleep(_POLL_S)
        node = running_node(home)
    return True


def _ask_to_end(node: RunningNode) -> bool:
    """Send a node the order to end; return whether it could be sent."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_END_S)
        try:
            sock.connect(os.path.join(node.run_dir, "node.sock"))
            sock.sendall(encode_frame(Shutdown()))
        except OSError:
            return False
    return True
