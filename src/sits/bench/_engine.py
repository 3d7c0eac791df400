"""A benchmark's end of its engine process: starts it, gives it rounds, looks at its memory."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from sits.bench._engine_orders import Done, Hello, Setup, Work
from sits.bench._errors import BenchError
from sits.bench._peers import end
from sits.bench._processes import pss_mb

_LOOK_S = 0.05


class EngineProcess:
    """The runtime's batcher in a process of its own.

    Attributes:
        end_tokens: ids of the tokens that end an answer.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.end_tokens = self._read(Hello).end_tokens

    def run(self, works: Sequence[Work]) -> list[Done]:
        """Run a round and return what became of each request, in their order.

        Raises:
            BenchError: an answer has not as many tokens as were asked for, or there is none.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(works) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchError(f"the engine process ended: {self._last_words()}") from None
        done: list[Done] = self._read(list[Done])
        for work, each in zip(works, done, strict=True):
            if each.completion_tokens != work.tokens or not each.text:
                raise BenchError(
                    f"the engine gave {each.completion_tokens} tokens and the text {each.text!r}; "
                    f"expected {work.tokens} and a text"
                )
        return done

    def run_looking(self, works: Sequence[Work]) -> tuple[list[Done], float]:
        """Run a round and return also the most memory meanwhile: its share of it (PSS), in MB."""
        most_mb = 0.0
        over = threading.Event()

        def look() -> None:
            nonlocal most_mb
            while not over.wait(_LOOK_S):
                most_mb = max(most_mb, pss_mb(self._process.pid))

        looker = threading.Thread(target=look)
        looker.start()
        try:
            return self.run(works), max(most_mb, pss_mb(self._process.pid))
        finally:
            over.set()
            looker.join()

    def _read(self, kind: Any) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"the engine process ended: {self._last_words()}")
        return msgspec.json.decode(line, type=kind)

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        lines = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


@contextmanager
def run_engine(setup: Setup) -> Iterator[EngineProcess]:
    """Run an engine process until the block ends.

    Raises:
        BenchError: it does not come up.
    """
    command = [sys.executable, "-P", "-m", "sits.bench._engine_process"]
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*command, msgspec.json.encode(setup).decode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield EngineProcess(process)
    finally:
        end(process)
