"""The base host's process: settings, model, loop."""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from sits.observe import run_service
from sits.runtime.batch import compile_template
from sits.runtime.engine import LLAMACPP, PoolShape, load_model
from sits.runtime.host._base import ForkHost
from sits.runtime.host._places import WORKER_BYTES, Places
from sits.runtime.host._prefixes import file_digest
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._resident import ResidentHost
from sits.runtime.host._server import HostServer, Instances
from sits.wire import UnitKind

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostSettings:
    """Settings of one base host.

    Attributes:
        model_path: the model file that it serves.
        endpoint: the unix socket on which it listens for control, who hears of the model when it
            is loaded.
        run_dir: a directory for workers' sockets, open to this user alone.
        parent_pid: the process that started it; it ends with that.
        engine: the engine's factory, `package.module:function`.
        resident: make instances within this process instead of by fork.
        kv_dir: a directory for what was computed of prompts and is to be found again after a
            restart; empty: nothing is kept.
        sequences: requests that one instance runs at once, where the model generates text.
        sequence_tokens: the longest prompt and answer together, or input of an embedding
            model; at most what the model was trained for.
        pool_tokens: room for so many tokens, of all sequences of an instance together; 0: for half
            of them at their longest.
        batch_tokens: the most tokens in one engine step, where the model generates text.
        worker_bytes: how much memory a worker may take beyond what it has of its template.
    """

    model_path: str
    endpoint: str
    run_dir: str
    parent_pid: int
    engine: str = LLAMACPP
    resident: bool = sys.platform != "linux"
    kv_dir: str = ""
    sequences: int = PoolShape.sequences
    sequence_tokens: int = PoolShape.sequence_tokens
    pool_tokens: int = 0
    batch_tokens: int = PoolShape.batch_tokens
    worker_bytes: int = WORKER_BYTES


def run(arguments: Sequence[str]) -> int:
    """Run a base host until it is ended from outside; return its exit status.

    Args:
        arguments: one, `HostSettings` as JSON.
    """
    return run_service("host", arguments, HostSettings, _serve)


def _serve(settings: HostSettings) -> None:
    os.makedirs(settings.run_dir, mode=0o700, exist_ok=True)
    reactor = Reactor()
    # Control connects while the model is loaded; it is answered after that.
    server = HostServer(reactor, settings.endpoint)
    model = load_model(settings.engine, settings.model_path)
    shape = PoolShape(
        settings.sequences,
        settings.sequence_tokens,
        settings.batch_tokens,
        cells=settings.pool_tokens,
    )
    maker: Instances
    if settings.resident:
        maker = ResidentHost(reactor, model, shape, settings.run_dir, server.announce)
    else:
        digest = file_digest(settings.model_path) if settings.kv_dir else ""
        places = Places(settings.run_dir, settings.kv_dir, digest, settings.worker_bytes)
        maker = ForkHost(reactor, model, shape, places, server.announce)
    server.serve(maker)
    # Who has connected hears of the model, and thinks about it while its template is compiled.
    reactor.turn(0.0)
    if model.info.kind is UnitKind.CHAT:
        compile_template(model)
    _log.info("serving %s", settings.model_path)
    signal.signal(signal.SIGTERM, _exit)
    try:
        while True:
            reactor.turn(maker.wait_s())
            maker.step()
    finally:
        maker.close()


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)
