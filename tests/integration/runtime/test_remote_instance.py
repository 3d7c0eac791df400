"""One instance's socket, with a caller whose answers end when the test says."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sits.runtime.remote._instance import RemoteInstance
from sits.wire import (
    Cancel,
    ChatPrompt,
    Failed,
    Finished,
    FinishReason,
    FromWorker,
    Generate,
    Message,
    Usage,
    connect,
)

pytestmark = pytest.mark.anyio


class Deaf:
    """Answers each request when it is told to, whether it was cancelled or not."""

    whose = "tenant=acme unit=chat"

    def __init__(self) -> None:
        self.asked: list[anyio.Event] = []

    async def answer(self, request: Generate, _emit: Callable[[str], None]) -> FromWorker:
        number, end = len(self.asked), anyio.Event()
        self.asked.append(end)
        with anyio.CancelScope(shield=True):
            await end.wait()
        return Finished(request.request_id, FinishReason.STOP, Usage(number, 0))


async def until(seen: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not seen():  # noqa: ASYNC110 - it announces nothing
            await anyio.sleep(0.005)


async def test_an_id_that_is_used_again_after_a_cancel_gets_the_second_answer_alone() -> None:
    caller: Any = Deaf()
    request = Generate("r1", ChatPrompt((Message("user", "hello"),)))
    with tempfile.TemporaryDirectory(prefix="sits-") as name:
        path = str(Path(name) / "i.sock")
        instance = RemoteInstance(caller, path, capacity=2)
        async with anyio.create_task_group() as tasks:
            await tasks.start(instance.run)
            try:
                async with await connect(path, FromWorker) as channel:
                    await channel.send(request)
                    await until(lambda: len(caller.asked) == 1)
                    await channel.send(Cancel("r1"))
                    await channel.send(request)
                    await until(lambda: len(caller.asked) == 2)
                    caller.asked[0].set()
                    # The second one is still running: its id is not free.
                    await until(lambda: instance._places.value == 1)
                    await channel.send(request)
                    events = aiter(channel)
                    with anyio.fail_after(5):
                        refused = await anext(events)
                        caller.asked[1].set()
                        answer = await anext(events)
            finally:
                for end in caller.asked:
                    end.set()
            tasks.cancel_scope.cancel()
    assert isinstance(refused, Failed)
    assert refused.code == "duplicate_request"
    assert answer == Finished("r1", FinishReason.STOP, Usage(1, 0))
