"""The models' store as control uses it: what takes long is done by a process of its own.

That process dies with control, and the next one goes on where it was; its last line says how it
ended, and one that ends without that is a failure that may pass.
"""

import logging
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from sits.models import ModelError, ModelFile, ModelPin, ModelStore, ModelUnavailable, PullProgress
from sits.spec import AdapterReference, ModelReference

_MAX_LINE_BYTES = 65536
_END_S = 5.0

log = logging.getLogger(__name__)


class StoreSource:
    """A `ModelSource` over a directory of models.

    Args:
        store: the directory.
    """

    def __init__(self, store: ModelStore) -> None:
        self._store = store

    def pin(self, reference: ModelReference) -> ModelPin:
        """Return what a reference means now. Blocks. Raises `ModelError`."""
        return self._store.pin(reference)

    def pin_adapter(self, reference: AdapterReference, model: ModelPin) -> ModelPin:
        """Return what a reference to an adapter means now. Blocks. Raises `ModelError`."""
        return self._store.pin_adapter(reference, model)

    def find(self, pin: ModelPin) -> ModelFile | None:
        """Return a model that has been taken in."""
        return self._store.find(pin)

    def keep(self, owner: Path, digests: Iterable[str]) -> None:
        """Keep these models for this owner's sake."""
        self._store.keep(owner, digests)

    async def pull(self, pin: ModelPin, on_progress: Callable[[PullProgress], None]) -> None:
        """Take a model in, by a process. Cancelling ends it.

        Raises:
            ModelError: it failed; ModelUnavailable where a later try may do better.
        """
        last: PullProgress | None = None
        process = await _start(self._store.pull_command(pin))
        try:
            async for progress in _read(process):
                last = progress
                on_progress(progress)
            status = await process.wait()
        finally:
            await _end(process)
        if last is not None and last.state == "failed":
            raise (ModelUnavailable if last.retryable else ModelError)(last.message)
        if status != 0:
            raise ModelUnavailable(
                f"the taking in of '{pin.reference}' ended with status {status} without a reason; "
                "control's log may have one"
            )


async def _start(command: tuple[str, ...]) -> anyio.abc.Process:
    try:
        return await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=None)
    except OSError as error:
        raise ModelUnavailable(f"no process to take a model in: {error}") from error


async def _read(process: anyio.abc.Process) -> AsyncIterator[PullProgress]:
    assert process.stdout is not None
    lines = BufferedByteReceiveStream(process.stdout)
    while True:
        try:
            line = await lines.receive_until(b"\n", _MAX_LINE_BYTES)
        except (anyio.IncompleteRead, anyio.EndOfStream):
            return
        except anyio.DelimiterNotFound:
            log.warning("a line of the process that takes a model in is too long")
            return
        try:
            yield msgspec.json.decode(line, type=PullProgress)
        except msgspec.MsgspecError:
            log.warning("the process that takes a model in says what is no progress: %r", line)


async def _end(process: anyio.abc.Process) -> None:
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(_END_S):
                await process.wait()
            if process.returncode is None:
                process.kill()
        await process.aclose()
