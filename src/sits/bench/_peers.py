"""Running a peer: its own server, on a free loopback port, until it answers; and its end.

Every peer serves the very file that the platform serves, with as many threads. It counts as ready
when it says so itself, not when its port is open. Peers end with this process however that ends.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx2

from sits._process import die_with_parent
from sits.bench._errors import BenchError
from sits.bench._peer_places import INSTALL, LLAMA_CPP_PYTHON, LLAMA_SERVER, XLLAMACPP, Peer

THREADS = 2
_READY_S = 60.0
_POLL_S = 0.002
_END_S = 5.0


@dataclass(frozen=True)
class PeerShape:
    """What a peer is started for.

    Attributes:
        model: the file.
        slots: requests at once.
        slot_tokens: room of each, prompt and answer together.
        sleep_s: after how long at rest its model is unloaded; 0: never.
    """

    model: Path
    slots: int = 1
    slot_tokens: int = 2048
    sleep_s: int = 0


@dataclass(frozen=True)
class PeerServer:
    """A peer that is ready.

    Attributes:
        port: on loopback.
        pid: of its process.
        started_s: just before its process was started, on `time.perf_counter`.
    """

    peer: Peer
    port: int
    pid: int
    started_s: float

    def is_asleep(self) -> bool:
        """Return whether llama-server has unloaded its model."""
        reply = httpx2.get(f"http://127.0.0.1:{self.port}/props", trust_env=False)
        return bool(reply.json().get("is_sleeping"))

    def wait_until_asleep(self) -> None:
        """Wait until the model is unloaded.

        Raises:
            BenchError: it is not within a minute.
        """
        until_s = time.perf_counter() + _READY_S
        while not self.is_asleep():
            if time.perf_counter() > until_s:
                raise BenchError(f"{self.peer.name} was not asleep within {_READY_S:g} s")
            time.sleep(0.05)


def missing_words(peer: Peer) -> str:
    """Return what a person is told of a peer that is not installed."""
    return f"{peer.name} {peer.version} is not installed, so it is not measured: {INSTALL}"


@contextmanager
def run_peer(peer: Peer, shape: PeerShape) -> Iterator[PeerServer]:
    """Run a peer's server until the block ends.

    Raises:
        BenchError: it is not installed, or not ready within a minute.
    """
    program = peer.find()
    if program is None:
        raise BenchError(missing_words(peer))
    port = free_port()
    command = _command(peer, program, port, shape)
    started_s = time.perf_counter()
    process = start(command)
    try:
        _wait_until_ready(peer, process, port)
        yield PeerServer(peer, port, process.pid, started_s)
    finally:
        end(process)


def start(command: list[str], piped: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a program that ends with this process.

    Args:
        command: what is run.
        piped: `subprocess.PIPE` where its standard input and output are wanted.
    """
    return subprocess.Popen(  # noqa: S603 - a peer, or our own program
        command,
        stdin=piped,
        stdout=piped,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - one thread here
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and collect it."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def free_port() -> int:
    """Return a port of loopback that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _command(peer: Peer, program: Path, port: int, shape: PeerShape) -> list[str]:
    model, threads = str(shape.model), str(THREADS)
    context = str(shape.slots * shape.slot_tokens)
    if peer is LLAMA_SERVER:
        command = [str(program), "--model", model, "--host", "127.0.0.1", "--port", str(port)]
        command += ["--threads", threads, "--threads-batch", threads, "--ctx-size", context]
        command += ["--parallel", str(shape.slots), "--no-warmup", "--offline"]
        return command + ["--sleep-idle-seconds", str(shape.sleep_s)] * bool(shape.sleep_s)
    if peer is XLLAMACPP:
        script = str(Path(__file__).with_name("_xllamacpp_process.py"))
        return [str(program), script, model, str(port), str(shape.slots), context, threads]
    if peer is LLAMA_CPP_PYTHON:
        command = [str(program), "-m", "llama_cpp.server", "--model", model, "--n_ctx", context]
        command += ["--n_threads", threads, "--n_threads_batch", threads]
        return [*command, "--host", "127.0.0.1", "--port", str(port)]
    raise AssertionError(f"{peer.name} is no peer that has a server")


def _wait_until_ready(peer: Peer, process: subprocess.Popen[bytes], port: int) -> None:
    path = "/v1/models" if peer is LLAMA_CPP_PYTHON else "/health"
    until_s = time.perf_counter() + _READY_S
    while not _says_ready(port, path):
        if process.poll() is not None:
            raise BenchError(f"{peer.name} ended with {process.returncode} before it was ready")
        if time.perf_counter() > until_s:
            raise BenchError(f"{peer.name} was not ready within {_READY_S:g} s")
        time.sleep(_POLL_S)


def _says_ready(port: int, path: str) -> bool:
    """Ask once, by hand: the client's own time would be part of the peer's."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return sock.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
