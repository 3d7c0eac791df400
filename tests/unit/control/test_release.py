"""What follows from a revision for its instances."""

import pytest

from tests.unit.control.builders import make_wanted


@pytest.mark.parametrize(
    ("slo", "itl_ms"),
    [
        ({}, None),
        ({"ttft": "1s"}, None),
        ({"itl": "50ms"}, 50.0),
        ({"itl_p95": "40ms"}, 40.0),
        ({"itl_p95": "40ms", "itl_p99": "80ms"}, 80.0),
    ],
)
def test_the_objective_between_two_tokens_is_what_the_unit_says(
    slo: dict[str, str], itl_ms: float | None
) -> None:
    release = make_wanted(slo=slo).target
    assert release.itl_ms == (None if itl_ms is None else pytest.approx(itl_ms))


def test_instances_with_another_objective_are_others() -> None:
    plain, quick, slow = (
        make_wanted(slo=slo).target for slo in ({}, {"itl": "50ms"}, {"itl": "90ms"})
    )
    assert plain.variant == ""
    assert not quick.runs_as(plain)
    assert not quick.runs_as(slow)
    assert quick.runs_as(make_wanted(slo={"itl": "50ms", "ttft": "1s"}).target)
