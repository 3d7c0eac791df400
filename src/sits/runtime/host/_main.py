"""The base host's process: settings, model, loop."""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

import msgspec

from sits._errors import SitsError
from sits._process import die_with_parent, set_process_name
from sits.observe import configure_logging
from sits.runtime.engine import LLAMACPP, PoolShape, load_model
from sits.runtime.host._base import ForkHost
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._resident import ResidentHost
from sits.runtime.host._server import HostServer, Instances
from sits.wire import HostReady

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostSettings:
    """Settings of one base host.

    Attributes:
        model_path: the model file that it serves.
        endpoint: the unix socket on which it listens for control, once the model is loaded.
        run_dir: a directory for workers' sockets, open to this user alone.
        parent_pid: the process that started it; it ends with that.
        engine: the engine's factory, `package.module:function`.
        resident: make instances within this process instead of by fork.
        sequences: requests that one instance runs at once.
        sequence_tokens: the longest prompt and answer together, at most what the model was
            trained for.
        batch_tokens: the most tokens in one engine step.
    """

    model_path: str
    endpoint: str
    run_dir: str
    parent_pid: int
    engine: str = LLAMACPP
    resident: bool = sys.platform != "linux"
    sequences: int = PoolShape.sequences
    sequence_tokens: int = PoolShape.sequence_tokens
    batch_tokens: int = PoolShape.batch_tokens


def run(arguments: Sequence[str]) -> int:
    """Run a base host until it is ended from outside.

    Args:
        arguments: one, `HostSettings` as JSON.

    Returns:
        The exit status, 1 when the model cannot be run (the reason is on stderr).
    """
    settings = msgspec.json.decode(arguments[0], type=HostSettings)
    die_with_parent(settings.parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_process_name("sits-host")
    configure_logging("host")
    try:
        _serve(settings)
    except SitsError as error:
        _log.error("%s", error)
        return 1
    return 0


def _serve(settings: HostSettings) -> None:
    model = load_model(settings.engine, settings.model_path)
    trained = model.info.trained_context_tokens
    shape = PoolShape(
        settings.sequences, min(settings.sequence_tokens, trained), settings.batch_tokens
    )
    os.makedirs(settings.run_dir, mode=0o700, exist_ok=True)
    reactor = Reactor()
    server = HostServer(reactor, settings.endpoint, HostReady(shape.sequence_tokens, trained))
    make = ResidentHost if settings.resident else ForkHost
    maker: Instances = make(reactor, model, shape, settings.run_dir, server.announce)
    server.serve(maker)
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
