"""Triggers: what they mean, how they are written, and what is told of the rest."""

import pytest

from sits.spec import (
    METRICS,
    And,
    Comparator,
    Comparison,
    Held,
    Not,
    Or,
    Quantity,
    Share,
    Time,
    Trigger,
    TriggerError,
    find_metric,
    parse_trigger,
)

SLOW = Comparison("latency_p95", Comparator.MORE, Time.parse("800ms"))
BUSY = Comparison("gpu_util", Comparator.MORE, Share.parse("85%"))
FULL = Comparison("kv_util", Comparator.AT_LEAST, Share.parse("90%"))
MINUTE = Time.parse("1m")
A, B, C = "latency_p95 > 800ms", "gpu_util > 85%", "kv_util >= 90%"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (A, SLOW),
        ("latency_p95>0.8s", SLOW),
        (f"{A} || {B}", Or((SLOW, BUSY))),
        (f"{B} for 60s", Held(BUSY, MINUTE)),
        (f"{A} || {B} for 60s", Or((SLOW, Held(BUSY, MINUTE)))),
        (f"({A} || {B}) for 60s", Held(Or((SLOW, BUSY)), MINUTE)),
        (f"{A} || {B} && {C}", Or((SLOW, And((BUSY, FULL))))),
        (f"({A} || {B}) && {C}", And((Or((SLOW, BUSY)), FULL))),
        (f"!{A} && {B}", And((Not(SLOW), BUSY))),
        (f"!{A} for 1m", Not(Held(SLOW, MINUTE))),
        (f"(!{A}) for 1m", Held(Not(SLOW), MINUTE)),
        (f"!({A} || {B})", Not(Or((SLOW, BUSY)))),
        (f"!!{A}", Not(Not(SLOW))),
        (f"(({A}))", SLOW),
        (f"{A} && ({B} && {C})", And((SLOW, BUSY, FULL))),
        (f"({A} for 1m) for 1m", Held(Held(SLOW, MINUTE), MINUTE)),
    ],
)
def test_a_text_means(text: str, meaning: Trigger) -> None:
    assert parse_trigger(text) == meaning
    assert parse_trigger(str(meaning)) == meaning


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("gpu_util>0.85 for 60s", "gpu_util > 85% for 1m"),
        ("!gpu_util > 85%", "!(gpu_util > 85%)"),
        ("((gpu_util > 85%) for 1m)", "gpu_util > 85% for 1m"),
        ("requests_per_s > 50", "requests_per_s > 50/s"),
        (f"({A}) || (({B}) && {C})", f"{A} || {B} && {C}"),
    ],
)
def test_a_trigger_is_written_in_one_way(text: str, canonical: str) -> None:
    assert str(parse_trigger(text)) == canonical


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("latncy_p95 > 1s", 1, "did you mean `latency_p95`?"),
        (f"{A} || gpu_utl > 1%", 24, "did you mean `gpu_util`?"),
        ("latency_p95 > 85%", 15, "'85%' is a share, and `latency_p95` is compared with a time"),
        ("gpu_util > 800ms", 12, "'800ms' is a time, and `gpu_util` is compared with a share"),
        ("latency_p95 > 800 ms", 19, "write 800ms, without a space"),
        ("latency_p95 > 800", 15, "write 800s or 800ms"),
        (f"{A} and {B}", 21, "write `&&`"),
        (f"({A}", 1, "this '(' is not closed"),
        (f"{A})", 20, "this ')' has no '('"),
        (f"{A} for", 24, "expected a time"),
        ("", 1, "expected a metric"),
        ("!" * 40 + A, 1, "nested over 32 levels"),
        (A + " " * 1000, 1001, "at most 1000 characters"),
    ],
)
def test_an_error_points_at_its_column(text: str, column: int, words: str) -> None:
    with pytest.raises(TriggerError) as caught:
        parse_trigger(text)
    assert caught.value.column == column
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["latency_p1", "ttft_p99", "itl_p99.9", "latency_p50"])
def test_every_percentile_from_1_to_99_9_is_a_metric(name: str) -> None:
    found = find_metric(name)
    assert found is not None
    assert found.kind is Time


@pytest.mark.parametrize("name", ["latency_p0", "latency_p100", "latency_p95.0", "latency_pNN", ""])
def test_other_percentiles_are_none(name: str) -> None:
    assert find_metric(name) is None


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_takes_its_own_example_and_no_other_kind(name: str) -> None:
    metric = METRICS[name]
    written = name.replace("NN", "95")
    parse_trigger(f"{written} > {metric.example}")
    foreign: dict[type[Quantity], str] = {
        kind.kind: kind.example for kind in METRICS.values() if "." not in kind.example
    }
    for kind, example in foreign.items():
        if kind is not metric.kind and not example.isdigit():
            with pytest.raises(TriggerError, match="is compared with"):
                parse_trigger(f"{written} > {example}")


def test_the_comparisons_of_a_trigger_are_given_from_left_to_right() -> None:
    trigger = parse_trigger(f"!({A} && {B}) for 1m || {C}")
    assert list(trigger.comparisons()) == [SLOW, BUSY, FULL]
