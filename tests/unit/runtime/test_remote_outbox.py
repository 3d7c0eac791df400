"""What waits for a gateway is bounded."""

from typing import Any

import anyio
import pytest

from sits.runtime.remote._outbox import Outbox
from sits.wire import Cancel

pytestmark = pytest.mark.anyio


class Taking:
    """A peer that takes what it is sent."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    async def send(self, message: Any) -> None:
        self.taken.append(message)


async def test_a_full_outbox_ends_the_link_and_keeps_no_more() -> None:
    connection = anyio.CancelScope()
    outbox = Outbox(connection)
    for number in range(8192):
        outbox.put_nowait(Cancel(str(number)))
    before = connection.cancel_called
    outbox.put_nowait(Cancel("one too many"))
    assert (before, connection.cancel_called) == (False, True)
    peer: Any = Taking()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.send_all, peer)
        await outbox.wait_empty()
        tasks.cancel_scope.cancel()
    assert [message.request_id for message in peer.taken] == [str(n) for n in range(8192)]
