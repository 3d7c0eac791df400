"""Quantities: what they amount to, how they are written, and what is told of the rest."""

from typing import Any

import pytest

from sits.spec import Count, Money, Quantity, QuantityError, Rate, Share, Size, Time


@pytest.mark.parametrize(
    ("kind", "text", "base"),
    [
        (Time, "800ms", 0.8),
        (Time, "1.5h", 5400),
        (Time, "250us", 0.00025),
        (Time, "60s", 60),
        (Time, "2d", 172_800),
        (Time, "0s", 0),
        (Size, "8GiB", 8 * 1024**3),
        (Size, "8Gi", 8 * 1024**3),
        (Size, "8GB", 8_000_000_000),
        (Size, "1.5KiB", 1536),
        (Size, "64Mi", 64 * 1024**2),
        (Share, "25%", 0.25),
        (Share, "99.95%", 0.9995),
        (Share, "0.25", 0.25),
        (Rate, "50/s", 50),
        (Rate, "90/m", 1.5),
        (Rate, "50", 50),
        (Count, "10", 10),
        (Count, "2.5", 2.5),
        (Count, "2M", 2_000_000),
        (Count, "5P", 5e15),
    ],
)
def test_a_text_amounts_to(kind: type[Quantity], text: str, base: float) -> None:
    assert kind.parse(text).base == base


@pytest.mark.parametrize(
    ("kind", "texts", "canonical"),
    [
        (Time, ["800ms", "0.8s", "800000us"], "800ms"),
        (Time, ["60s", "1m"], "1m"),
        (Time, ["90m", "1.5h"], "90m"),
        (Time, ["0s", "0us", "0d"], "0s"),
        (Size, ["8GiB", "8192MiB", "8Gi"], "8GiB"),
        (Size, ["8GB", "8000MB"], "8GB"),
        (Size, ["0B", "0TiB"], "0B"),
        (Share, ["25%", "0.25", "25.0%"], "25%"),
        (Share, ["0%", "0"], "0%"),
        (Rate, ["50/s", "50", "3000/m"], "50/s"),
        (Rate, ["100/m"], "100/m"),
        (Count, ["2M", "2000000", "2000k"], "2000000"),
    ],
)
def test_equal_amounts_are_equal_and_written_in_one_way(
    kind: type[Quantity], texts: list[str], canonical: str
) -> None:
    quantities = {kind.parse(text) for text in texts}
    assert [str(quantity) for quantity in quantities] == [canonical]


def test_amounts_of_a_kind_are_ordered() -> None:
    assert Time.parse("1m") > Time.parse("59s")
    assert Size.parse("1GiB") > Size.parse("1GB")


def test_quantities_of_two_kinds_are_never_equal() -> None:
    one, other = Time(1000), Size(1000)
    assert {one, other} == {other, one}
    assert len({one, other}) == 2


@pytest.mark.parametrize(
    ("kind", "value", "meant"),
    [
        (Time, "80ms0", "write 80ms"),
        (Time, "800 ms", "write 800ms"),
        (Time, 800, "write 800s or 800ms"),
        (Time, "1h30m", "write 90m"),
        (Time, "5 minutes", "write 5m"),
        (Time, "5min", "write 5m"),
        (Time, ".5s", "write 0.5s"),
        (Time, "007s", "write 7s"),
        (Time, "1,5s", "write 1.5s"),
        (Time, "1,000ms", "write 1000ms"),
        (Time, "1e3ms", "write 1000ms"),
        (Time, "-1", "a time is never negative"),
        (Time, "1.0000001s", "steps of 1us"),
        (Time, "9999d", "at most 3650d"),
        (Size, 8, "write 8B or 8GiB"),
        (Size, "8G", "write 8GB"),
        (Size, "8 gib", "write 8GiB"),
        (Share, 25, "write 25%"),
        (Share, "50 percent", "write 50%"),
        (Share, -0.5, "a share is never negative"),
        (Share, "101%", "at most 100%"),
        (Rate, "10 rps", "write 10/s"),
        (Rate, "5/min", "write 5/m"),
        (Count, "2m", "write 2M"),
        (Count, "1_000", "write 1000"),
        (Money, "$20", "write 20USD"),
        (Money, "20 eur", "write 20EUR"),
        (Money, "GBP 1.5", "write 1.5GBP"),
    ],
)
def test_what_was_meant_is_told(kind: Any, value: object, meant: str) -> None:
    with pytest.raises(QuantityError) as caught:
        kind.read(value)
    assert meant in str(caught.value)


NO_AMOUNTS: list[object] = [
    *("", " ", "NaN", "inf", "-inf", "1e400", "x", "s", "%", "-0.0", "1..2", "--1", "1" * 400),
    *("1s\n", "\u0663s", "\u00b2%"),
    *(None, True, False, float("nan"), float("inf"), -1, [], {}),
]


@pytest.mark.parametrize("kind", [Time, Size, Share, Rate, Count, Money])
@pytest.mark.parametrize("value", NO_AMOUNTS)
def test_what_is_no_amount_is_refused(kind: Any, value: object) -> None:
    with pytest.raises(QuantityError, match=r"^is .*; expected an? "):
        kind.read(value)


def test_money_has_a_currency_and_is_exact() -> None:
    assert Money.parse("20.50USD") == Money.parse("20.5USD") == Money(20_500_000, "USD")
    assert Money.parse("1USD") != Money.parse("1EUR")
    assert str(Money.parse("20.50USD")) == "20.5USD"
