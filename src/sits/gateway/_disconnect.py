"""Stops work for a client that has left, at once, whatever the work is waiting for."""

from collections.abc import Awaitable, Callable

import anyio

from sits.gateway._edge import Receive
from sits.gateway._errors import ApiError


async def while_connected(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work`; cancel it when the client leaves, and return.

    The request's body has to be read before: this consumes what `receive` gives.

    Raises:
        ApiError: what `work` raised, as it is (a task group would wrap it).
    """
    failure: ApiError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_wait_for_disconnect, receive, group.cancel_scope)
        try:
            await work()
        except ApiError as error:
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _wait_for_disconnect(receive: Receive, work: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()
