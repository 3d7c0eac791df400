"""What counts as a start of a tier, and what becomes of its samples."""

import itertools
import random
from collections.abc import Iterator
from typing import Any, cast

import pytest

from sits.bench import BenchError, median_of
from sits.bench import _starts as starts
from sits.bench._client import Answer, Ask
from sits.bench._platform import BenchPlatform
from sits.bench._stats import best_of, p99_of


class FakePlatform:
    """Has processes for so many looks, and answers with given tiers."""

    def __init__(self, looks: dict[str, int], tiers: Iterator[str]) -> None:
        self.looks, self.tiers = looks, tiers
        self.there_when_asked: list[dict[str, int]] = []

    def count_processes(self, name: str) -> int:
        left = self.looks.get(name, 0)
        self.looks[name] = left - 1
        return int(left > 0)

    def ask(self, unit: str, messages: Any, tokens: int) -> Ask:
        self.there_when_asked.append(dict(self.looks))
        return Ask(0, {"messages": messages})


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> list[FakePlatform]:
    """Answer every request with the next tier of the one platform in the list."""
    platforms: list[FakePlatform] = []

    def ask(request: Ask) -> Answer:
        tier = next(platforms[0].tiers)
        event = (
            b'data: {"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 9}}\n\n'
        )
        answer = Answer(sent_s=1.0)
        head = f"HTTP/1.1 200 OK\r\nx-sits-tier: {tier}\r\ntransfer-encoding: chunked\r\n\r\n"
        answer.take(head.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(event), event), 1.05)
        return answer

    monkeypatch.setattr(starts, "ask", ask)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return platforms


def make_case(
    answers: list[FakePlatform], tier: str, tiers: Iterator[str], **looks: int
) -> tuple[starts.StartCase, FakePlatform]:
    fake = FakePlatform(looks, tiers)
    answers.append(fake)
    platform = cast(BenchPlatform, fake)
    return starts.StartCase(f"{tier}_20", tier, "", 3, platform, random.Random(1)), fake


def test_a_start_waits_until_nothing_of_it_is_there(answers: list[FakePlatform]) -> None:
    case, fake = make_case(answers, "cool", itertools.repeat("cool"), worker=2, template=3, host=4)
    assert case.start_ms() == pytest.approx(50.0)
    assert all(left <= 0 for left in fake.there_when_asked[0].values())
    assert (case.at_rest, case.wrong, case.prompt_tokens) == (1, 0, 9)


def test_a_warm_start_needs_no_host_to_be_gone(answers: list[FakePlatform]) -> None:
    case, fake = make_case(answers, "warm", itertools.repeat("warm"), worker=2, host=10**9)
    case.start_ms()
    assert len(fake.there_when_asked) == 1


def test_a_start_of_another_tier_is_counted_and_not_measured(answers: list[FakePlatform]) -> None:
    case, _ = make_case(answers, "warm", iter(["hot", "warm"]))
    case.start_ms()
    assert (case.at_rest, case.wrong) == (2, 1)


def test_too_many_starts_of_another_tier_are_an_error(answers: list[FakePlatform]) -> None:
    case, _ = make_case(answers, "cool", itertools.repeat("warm"))
    with pytest.raises(BenchError, match="were not cool, the last one 'warm'"):
        case.start_ms()


def test_what_does_not_end_is_an_error(
    answers: list[FakePlatform], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, _ = make_case(answers, "cool", itertools.repeat("cool"), host=10**9)
    monkeypatch.setattr("time.perf_counter", itertools.count(0.0, 10.0).__next__)
    with pytest.raises(BenchError, match="host did not end within 30 s"):
        case.start_ms()


def test_the_ratio_is_of_the_peer_that_is_the_fastest_in_all() -> None:
    # The other one is faster once, in the second round.
    theirs = [{"a": 400.0, "b": 900.0}, {"a": 400.0, "b": 300.0}, {"a": 600.0, "b": 900.0}]
    found = starts.ratio_to_fastest([[90.0, 100.0, 500.0], [50.0], [100.0]], theirs)
    assert found.own == (4.0, 8.0, 6.0)
    assert median_of(found.own).value == 6.0


# By the nearest-rank method, the 99th percentile of n samples is the ceil(0.99 n)-th.
@pytest.mark.parametrize(("count", "rank"), [(1, 1), (50, 50), (100, 99), (101, 100), (200, 198)])
def test_the_slowest_hundredth_is_by_nearest_rank(count: int, rank: int) -> None:
    assert p99_of([float(number) for number in range(count, 0, -1)]) == rank


def test_the_best_peer_is_by_its_median() -> None:
    peers = {"steady": [5.0, 5.0, 5.0], "wild": [1.0, 9.0, 9.0]}
    assert best_of(peers, higher_is_better=False) == "steady"
    assert best_of(peers, higher_is_better=True) == "wild"
