"""What a cold start is held against: programs that begin, or wake, for one request.

Each is timed from its exec (or from the request that wakes it) to the first piece of text that is
not empty, on the file that the platform serves and with the messages that it is asked.
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sits.bench._client import Ask, ask
from sits.bench._errors import BenchError
from sits.bench._interface import Tell
from sits.bench._peer_places import LLAMA_CPP_PYTHON, LLAMA_SERVER, XLLAMACPP, Peer
from sits.bench._peers import (
    THREADS,
    PeerServer,
    PeerShape,
    end,
    missing_words,
    run_peer,
    start,
)
from sits.bench._platform import Message, chat_body

PLAIN = "plain process"
ASLEEP = "llama-server asleep"
_CONTEXT_TOKENS = 2048
_TOKENS = 4
_SLEEP_S = 1

Baseline = Callable[[Sequence[Message]], float]
"""Takes the messages of a chat, and returns the milliseconds to the first piece."""


@contextmanager
def run_baselines(model: Path, tell: Tell, *, few: bool) -> Iterator[Mapping[str, Baseline]]:
    """Give what is installed of the baselines, by name, and say what is not.

    Args:
        model: the file.
        tell: shows a line to the person.
        few: without those that are known to be slower than others.
    """
    shape = PeerShape(model, slot_tokens=_CONTEXT_TOKENS)
    found: dict[str, Baseline] = {PLAIN: lambda messages: _plain_ms(model, messages)}
    for peer in (LLAMA_SERVER,) if few else (LLAMA_SERVER, XLLAMACPP, LLAMA_CPP_PYTHON):
        if peer.find() is None:
            tell(missing_words(peer))
        else:
            found[peer.name] = _from_exec(peer, shape)
    with contextlib.ExitStack() as stack:
        if LLAMA_SERVER.find() is not None:
            asleep = PeerShape(model, slot_tokens=_CONTEXT_TOKENS, sleep_s=_SLEEP_S)
            found[ASLEEP] = _woken(stack.enter_context(run_peer(LLAMA_SERVER, asleep)))
        yield found


def _from_exec(peer: Peer, shape: PeerShape) -> Baseline:
    def measure_ms(messages: Sequence[Message]) -> float:
        with run_peer(peer, shape) as server:
            answer = ask(Ask(server.port, chat_body("model", messages, _TOKENS)))
            return (answer.pieces[0][0] - server.started_s) * 1e3

    return measure_ms


def _woken(server: PeerServer) -> Baseline:
    def measure_ms(messages: Sequence[Message]) -> float:
        server.wait_until_asleep()
        return ask(Ask(server.port, chat_body("model", messages, _TOKENS))).first_piece_ms

    return measure_ms


def _plain_ms(model: Path, messages: Sequence[Message]) -> float:
    script = str(Path(__file__).with_name("_plain_process.py"))
    document = [{"role": role, "content": words} for role, words in messages]
    command = [sys.executable, "-P", script, str(model), str(_CONTEXT_TOKENS), str(THREADS)]
    began_s = time.perf_counter()
    process = start(command, subprocess.PIPE)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin as stdin:
            stdin.write(json.dumps(document).encode())
        if not process.stdout.read(1):
            raise BenchError(f"the plain process ended with {process.wait()} and gave no answer")
        return (time.perf_counter() - began_s) * 1e3
    finally:
        end(process)
