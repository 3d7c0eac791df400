"""Which of several things a request gets."""

from collections import Counter

import pytest

from sits.policy import choose_share


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((1_000_000,), {0: 1.0}),
        ((), {None: 1.0}),
        ((250_000,), {0: 0.25, None: 0.75}),
        ((500_000, 200_000), {0: 0.5, 1: 0.2, None: 0.3}),
        ((0, 1_000_000), {1: 1.0}),
    ],
)
def test_each_gets_its_share(shares: tuple[int, ...], expected: dict[int | None, float]) -> None:
    count = 20_000
    found = Counter(choose_share(f"req-{number:024x}", shares) for number in range(count))
    assert found.keys() == expected.keys()
    for place, share in expected.items():
        # Five standard deviations of a binomial.
        assert abs(found[place] - count * share) <= 5 * (count * share * (1 - share)) ** 0.5


def test_a_request_keeps_what_it_got_while_the_shares_grow() -> None:
    for number in range(200):
        place = choose_share(f"req-{number}", (300_000,))
        assert choose_share(f"req-{number}", (600_000,)) == 0 or place is None


def test_ids_may_be_any_text() -> None:
    assert choose_share("\ud800😀", (1_000_000,)) == 0
