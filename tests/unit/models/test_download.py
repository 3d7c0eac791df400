"""Downloads from a hub that breaks off in ways that take many connections."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sits.models import HubSettings, ModelUnavailable, PullProgress
from sits.models._download import Wanted, download
from sits.models._hub import HubBody, HubBroke

CONTENT = bytes(range(256)) * 4000  # 1,024,000 bytes
KIB = 1024
SETTINGS = HubSettings(tries=4, pause_s=0.0)


class Cutting:
    """A hub that knows no ranges, and cuts its answers after these many bytes, over and over."""

    def __init__(self, *cuts: int) -> None:
        self.cuts = cuts
        self.asked = 0

    @contextmanager
    def body(self, *_where: object) -> Iterator[HubBody]:
        assert self.asked < 100, "it is asked for ever"
        cut = self.cuts[self.asked % len(self.cuts)]
        self.asked += 1
        yield HubBody(0, self._parts(cut))

    def _parts(self, cut: int) -> Iterator[bytes]:
        yield CONTENT[:cut]
        if cut < len(CONTENT):
            raise HubBroke("cut")


def fetch(hub: Any, partial: Path) -> list[PullProgress]:
    told: list[PullProgress] = []
    digest = hashlib.sha256(CONTENT).hexdigest()
    wanted = Wanted("org/model", "c" * 40, "m.gguf", len(CONTENT), digest)
    download(hub, SETTINGS, wanted, partial, told.append)
    return told


@pytest.mark.parametrize("cuts", [(100 * KIB, 200 * KIB), (200 * KIB, 1), (900 * KIB,) * 3 + (1,)])
def test_a_hub_without_ranges_that_gets_no_further_is_given_up(
    tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    hub = Cutting(*cuts)
    with pytest.raises(ModelUnavailable, match="4 times"):
        fetch(hub, tmp_path / "m.part")
    # At most two that got further, then as many as are tried.
    assert hub.asked <= 6


def test_a_hub_without_ranges_that_gets_further_each_time_is_asked_on(tmp_path: Path) -> None:
    steps = tuple(range(100 * KIB, len(CONTENT), 100 * KIB))
    hub = Cutting(*steps, len(CONTENT))
    fetch(hub, tmp_path / "m.part")
    assert hub.asked == len(steps) + 1
    assert (tmp_path / "m.part").read_bytes() == CONTENT


def test_a_partial_file_that_is_too_long_is_begun_anew_without_reading_it(tmp_path: Path) -> None:
    partial = tmp_path / "m.part"
    partial.write_bytes(CONTENT + b"more")
    told = fetch(Cutting(len(CONTENT)), partial)
    assert partial.read_bytes() == CONTENT
    assert [progress.message for progress in told] == [""]
