"""Control among fakes, for every test in here."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.control.fakes import Platform, platform, short_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


@pytest.fixture
async def running(directory: Path) -> AsyncIterator[Platform]:
    async with platform(directory) as up:
        yield up


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing wait for real time: what is not urgent is done at the next chance."""
    monkeypatch.setattr("sits.control._service._SOON_S", 0.0)
