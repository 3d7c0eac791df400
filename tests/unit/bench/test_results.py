"""Samples into a result, and one result beside another."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sits.bench import (
    BenchError,
    Options,
    Result,
    Samples,
    compare,
    make_result,
    median_of,
    ratio_of,
)
from tests.unit.bench.builders import MACHINE, FakeBench, make_fake


# The ranks are those of the sign test's tables: n = 10 gives the 2nd and the 9th at 97.9 %,
# n = 20 the 6th and the 15th at 95.9 %.
@pytest.mark.parametrize(
    ("count", "low", "high"), [(1, 1, 1), (5, 1, 5), (6, 1, 6), (10, 2, 9), (20, 6, 15)]
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(
    count: int, low: float, high: float
) -> None:
    found = median_of([float(rank) for rank in range(count, 0, -1)])
    assert (found.low, found.high, found.count) == (low, high, count)
    assert found.value == (count + 1) / 2


def test_a_ratio_is_the_median_of_the_pairs_and_not_of_the_medians() -> None:
    # The machine was twice as slow in the last two pairs; each pair says 3.
    found = ratio_of([3.0, 30.0, 60.0], [1.0, 10.0, 20.0])
    assert found is not None
    assert (found.value, found.low, found.high) == (3.0, 3.0, 3.0)
    assert ratio_of([1.0], [0.0]) is None


def test_a_result_is_one_object_of_the_documented_form() -> None:
    _, result = make_fake((30.0, 10.0, 20.0), (10.0, 10.0, 10.0), target=15.0)
    told = json.loads(msgspec.json.encode(result))
    assert told["bench"] == "fake"
    assert (told["seed"], told["quick"], told["kind"]) == (7, True, "measurement")
    assert told["figures"] == {"list_ms": 20.0}
    assert told["intervals"] == {"list_ms": [10.0, 30.0]}
    assert told["baseline"] == {"list_ms": 10.0}
    assert told["ratio"] == {"list_ms": {"median": 2.0, "low": 1.0, "high": 3.0, "pairs": 3}}
    assert told["machine"] == MACHINE
    assert (told["setting"], told["load_cpu_share"]) == ({"units": 3}, 0.5)
    assert result.missed() == ["list_ms"]


def test_a_figure_without_a_baseline_has_no_ratio() -> None:
    _, result = make_fake((1.0,), target=1.5)
    assert (result.baseline, result.ratio, result.missed()) == ({}, {}, [])


def test_samples_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(BenchError, match="3 samples beside 2 of the baseline"):
        Samples((1.0, 2.0, 3.0), (1.0, 2.0))
    with pytest.raises(BenchError, match="0 samples"):
        Samples(())


def worse(
    before: tuple[float, ...], now: tuple[float, ...], *, other: bool = False, **figure: Any
) -> list[str]:
    """Compare two results; `other`: the second is of another machine."""
    machine = {**MACHINE, "cores": 64} if other else MACHINE
    ones = (1.0,) * len(before)
    bench, former = make_fake(before, ones, **figure)
    _, latest = make_fake(now, ones, machine=machine, **figure)
    return [str(each) for each in compare(bench.figures, former, latest)]


STEADY = (10.0, 10.1, 9.9, 10.0, 10.05, 9.95)


def test_a_figure_that_grew_beyond_its_noise_is_worse() -> None:
    grown = tuple(1.3 * each for each in STEADY)
    assert worse(STEADY, grown) == ["fake: list_ms was 10 and is 13"]
    assert worse(grown, STEADY) == []


def test_growth_within_the_slack_the_floor_or_the_interval_is_noise() -> None:
    assert worse(STEADY, tuple(1.1 * each for each in STEADY)) == []
    assert worse(STEADY, tuple(1.3 * each for each in STEADY), floor=4.0) == []
    wild = (9.0, 9.5, 14.0, 14.0, 15.0, 30.0)
    assert worse(STEADY, wild) == []


def test_results_of_two_machines_are_compared_by_their_ratios() -> None:
    grown = tuple(2.0 * each for each in STEADY)
    assert worse(STEADY, grown, other=True) == [
        "fake: list_ms against its baseline was 10 and is 20"
    ]
    assert worse(STEADY, STEADY, other=True) == []


def test_what_the_machine_was_slower_by_is_forgiven() -> None:
    bench, former = make_fake(STEADY, machine={**MACHINE, "pace_ms": 10.0})
    grown = tuple(1.5 * each for each in STEADY)
    for pace_ms, expected in ((15.0, 0), (10.0, 1), (5.0, 1)):
        _, latest = make_fake(grown, machine={**MACHINE, "pace_ms": pace_ms})
        assert len(compare(bench.figures, former, latest)) == expected


def test_where_higher_is_better_a_fall_is_worse_and_a_rise_is_not() -> None:
    fallen = tuple(0.7 * each for each in STEADY)
    told = worse(STEADY, fallen, higher_is_better=True)
    assert told == ["fake: list_ms was 10 and is 7"]
    assert worse(fallen, STEADY, higher_is_better=True) == []
    assert worse(STEADY, tuple(0.9 * each for each in STEADY), higher_is_better=True) == []


def test_where_higher_is_better_the_target_is_the_least() -> None:
    for value, missed in ((3.9, ["list_ms"]), (4.0, []), (5.0, [])):
        _, result = make_fake((value,), target=4.0, higher_is_better=True)
        assert result.missed() == missed
        assert result.target_words("list_ms") == "at least 4"
    _, result = make_fake((300.0,), target=300.0)
    assert (result.missed(), result.target_words("list_ms")) == (["list_ms"], "below 300")


def test_a_rate_on_a_slower_machine_is_forgiven_and_a_ratio_is_not() -> None:
    fallen = tuple(0.7 * each for each in STEADY)
    for ratio, expected in ((False, 0), (True, 1)):
        figure: dict[str, Any] = {"higher_is_better": True, "ratio": ratio}
        bench, former = make_fake(STEADY, machine={**MACHINE, "pace_ms": 10.0}, **figure)
        _, latest = make_fake(fallen, machine={**MACHINE, "pace_ms": 14.0}, **figure)
        assert len(compare(bench.figures, former, latest)) == expected


def test_a_ratio_is_compared_between_two_machines() -> None:
    fallen = tuple(0.5 * each for each in STEADY)
    for ratio, expected in ((False, 0), (True, 1)):
        bench, former = make_fake(STEADY, higher_is_better=True, ratio=ratio)
        _, latest = make_fake(
            fallen, machine={**MACHINE, "cores": 64}, higher_is_better=True, ratio=ratio
        )
        assert len(compare(bench.figures, former, latest)) == expected


def test_peers_are_told_by_name_and_may_be_measured_less_often() -> None:
    _, result = make_fake((1.0, 2.0, 3.0), peers={"one": (4.0, 6.0, 5.0), "other": (7.0,)})
    assert result.peers == {"list_ms": {"one": 5.0, "other": 7.0}}
    assert result.proof == {"idle": 3}
    with pytest.raises(BenchError, match="no samples of other"):
        Samples((1.0,), peers={"one": (1.0,), "other": ()})


def test_a_figure_without_samples_needs_a_reason() -> None:
    made = FakeBench({"list_ms": Samples((1.0,))}, target=2.0)
    made.figures += (type(made.figures[0])("other_ms", "another", target=1.0),)
    options = Options()
    with pytest.raises(BenchError, match="gave no samples of other_ms"):
        make_result(made, options, made.run(options, lambda _: None), MACHINE)
    made.left_out = {"other_ms": "its peer is not installed"}
    result = make_result(made, options, made.run(options, lambda _: None), MACHINE)
    assert result.left_out == {"other_ms": "its peer is not installed"}
    assert (list(result.figures), result.targets) == (["list_ms"], {"list_ms": 2.0})


def test_results_that_were_kept_before_can_be_read() -> None:
    kept = Path(__file__).parents[3] / "results" / "units.json"
    result = msgspec.json.decode(kept.read_bytes(), type=Result)
    assert result.targets["list_ms"] == 300.0
    assert result.target_words("list_ms") == "below 300"
