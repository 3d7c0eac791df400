"""The processes that answer: base host, template and worker, each forked from the one before.

    python -m sits.runtime.host '<json HostSettings>'     started by exec, from the node

    base host   one per model file: library imported, weights mapped; holds no tenant's tokens
      template  one per tenant: the KV pool, taken before any request
        worker  one instance: batcher, its own socket for gateways

Each is one synchronous loop (`Reactor`) on one thread. Orders come down and events go up the
chain as the same `wire` messages, so control sees one socket and one host. `ForkHost` makes
instances by fork; `ResidentHost` serves the same interface from one process, where a fork
cannot be had.
"""

from sits.runtime.host._base import ForkHost
from sits.runtime.host._cores import SpareCores
from sits.runtime.host._fork import ForkRefused
from sits.runtime.host._main import HostSettings, run
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._resident import ResidentHost
from sits.runtime.host._server import HostServer
from sits.runtime.host._worker import WorkerServer

__all__ = [
    "ForkHost",
    "ForkRefused",
    "HostServer",
    "HostSettings",
    "Reactor",
    "ResidentHost",
    "SpareCores",
    "WorkerServer",
    "run",
]
