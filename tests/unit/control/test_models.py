"""The taking in of models: how many at once, and when what failed is tried again."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from sits.control import SystemClock
from sits.control._models import Models, PullEnd
from sits.models import ModelPin, ModelUnavailable
from sits.spec import parse_model_reference
from sits.testing import FakeModels

pytestmark = pytest.mark.anyio


def pins_of(source: FakeModels, *names: str) -> list[ModelPin]:
    source.away.update(names)
    return [source.pin(parse_model_reference(f"builtin://{name}")) for name in names]


async def test_two_at_once_and_the_next_when_one_is_done() -> None:
    source = FakeModels()
    source.hold = anyio.Event()
    models = Models(source, Path("/home"), SystemClock(), lambda end: None)
    pins = pins_of(source, "a", "b", "c")
    async with anyio.create_task_group() as group:
        group.start_soon(models.run)
        for pin in pins:
            models.find(pin)
        await source.pulls(2)
        assert models.find(pins[2]).progress == "it waits for its turn"
        source.hold.set()
        await source.pulls(3)
        group.cancel_scope.cancel()


async def test_what_is_due_and_has_no_place_waits_without_spinning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, ends = FakeModels(), list[PullEnd]()
    models = Models(source, Path("/home"), SystemClock(), ends.append)
    failed, *others = pins_of(source, "a", "b", "c")
    source.failures = [ModelUnavailable("the hub is busy")]
    turns = 0

    start_some = models._start_some

    def count(group: anyio.abc.TaskGroup) -> None:
        nonlocal turns
        turns += 1
        start_some(group)

    monkeypatch.setattr(models, "_start_some", count)
    async with anyio.create_task_group() as group:
        group.start_soon(models.run)
        models.find(failed)
        with anyio.fail_after(5):
            while not any(end.problem for end in ends):
                await anyio.lowlevel.checkpoint()
        source.hold = anyio.Event()
        for pin in others:
            models.find(pin)
        await source.pulls(3)
        models.retry(failed.digest)  # it is due, and both places are taken
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert turns < 10
