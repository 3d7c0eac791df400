"""Which set of adapters has the next step."""

from collections import Counter

import pytest

from sits.runtime.batch._turns import Turns


def steps(
    turns: Turns, count: int, answers: set[str], prompts: dict[str, float] | None = None
) -> str:
    """Return who had the next steps, each charged 10 tokens."""
    prompts = dict(prompts or {})
    chosen = ""
    for _ in range(count):
        adapter = turns.choose(answers, prompts)
        if adapter in prompts:
            prompts[adapter] += 10
        chosen += adapter or "-"
    return chosen


@pytest.mark.parametrize(("answers", "prompts"), [({""}, {}), (set(), {"": 0.0})])
def test_one_set_has_every_step(answers: set[str], prompts: dict[str, float]) -> None:
    assert steps(Turns(), 3, answers, prompts) == "---"


def test_sets_with_answers_alternate_by_step() -> None:
    chosen = steps(Turns(), 9, {"a", "b", ""})
    assert [set(chosen[at : at + 3]) for at in (0, 3, 6)] == [{"a", "b", "-"}] * 3


def test_all_sets_with_prompts_alone_share_one_step_of_each_round() -> None:
    chosen = steps(Turns(), 12, {"a"}, {"a": 0, "b": 0, "c": 0})
    assert Counter(chosen) == {"a": 6, "b": 3, "c": 3}
    assert "aa" not in chosen
    assert Turns.round_steps({"a"}, {"a": 0, "b": 0, "c": 0}) == 2


def test_of_sets_with_prompts_the_least_served_goes_first_until_it_has_caught_up() -> None:
    assert steps(Turns(), 6, set(), {"b": 30, "c": 0}) == "cccbcb"


def test_a_set_that_comes_back_has_one_step_at_once_and_no_more_for_its_absence() -> None:
    turns = Turns()
    steps(turns, 2, {"a", "b"})
    steps(turns, 50, {"a"})
    steps(turns, 5, {"a", "c"})
    assert steps(turns, 4, {"a", "b", "c"})[0] == "b"
    chosen = steps(turns, 9, {"a", "b", "c"})
    assert Counter(chosen) == {"a": 3, "b": 3, "c": 3}
