"""Which templates are kept: table tests."""

from dataclasses import replace

from sits.policy import (
    Memory,
    TemplateDecision,
    TemplateUse,
    TemplateView,
    decide_templates,
)

MB = 1 << 20
PLENTY = Memory(available_bytes=10_000 * MB, reserve_bytes=100 * MB)


def view(tenant: str = "t", host: str = "h", **changes: object) -> TemplateView:
    made = TemplateView(host, tenant, is_open=True, cool_s=100.0, memory_bytes=200 * MB)
    return replace(made, **changes)  # type: ignore[arg-type]


def idle_since(used_s: float, *views: TemplateView) -> dict[tuple[str, str], TemplateUse]:
    return {each.key: TemplateUse(used_s) for each in views}


def decide(
    *views: TemplateView,
    uses: dict[tuple[str, str], TemplateUse] | None = None,
    memory: Memory | None = PLENTY,
    now_s: float = 0.0,
) -> TemplateDecision:
    return decide_templates(uses or {}, views, memory, now_s)


def test_what_is_heard_of_first_is_kept_for_its_time() -> None:
    first = decide(view(is_open=False), now_s=5.0)
    assert first.keep == {("h", "t")}
    assert first.due_s == 105.0
    at_the_end = decide(view(), uses=dict(first.uses), now_s=105.0)
    assert at_the_end.keep == frozenset()
    assert at_the_end.close == {("h", "t"): "no request for 100 s"}
    assert at_the_end.due_s is None


def test_its_time_begins_when_it_is_no_longer_busy_however_long_it_was() -> None:
    busy = decide(view(is_busy=True, is_needed=True), now_s=0.0)
    assert busy.due_s is None
    after = decide(view(), uses=dict(busy.uses), now_s=5000.0)
    assert after.due_s == 5100.0
    assert after.keep == {("h", "t")}


def test_what_only_runs_on_it_keeps_it_and_does_not_lengthen_its_time() -> None:
    kept = decide(view(is_needed=True), uses=idle_since(0.0, view()), now_s=500.0)
    assert kept.keep == {("h", "t")}
    gone = decide(view(), uses=dict(kept.uses), now_s=501.0)
    assert list(gone.close) == [("h", "t")]


def test_what_was_let_go_of_is_not_opened_again_until_it_is_needed() -> None:
    cooled = decide(view(), uses=idle_since(0.0, view()), now_s=200.0)
    closed = view(is_open=False)
    later = decide(closed, uses=dict(cooled.uses), now_s=10.0)  # also when the clock goes back
    assert later.keep == frozenset()
    needed = decide(replace(closed, is_needed=True, is_busy=True), uses=dict(later.uses))
    assert needed.keep == {("h", "t")}
    assert decide(view(), uses=dict(needed.uses), now_s=50.0).keep == {("h", "t")}


def test_under_pressure_the_idlest_and_largest_goes_first_and_no_more_than_must() -> None:
    old_small, new_large = view("a", memory_bytes=10 * MB), view("b", memory_bytes=900 * MB)
    old_large = view("c", memory_bytes=300 * MB)
    uses = idle_since(0.0, old_small, old_large) | idle_since(80.0, new_large)
    # 90 s x 10 MB, 10 s x 900 MB, 90 s x 300 MB: the third is worth least.
    short = Memory(available_bytes=0, reserve_bytes=250 * MB)
    decision = decide(old_small, new_large, old_large, uses=uses, memory=short, now_s=90.0)
    assert list(decision.close) == [("h", "c")]
    assert decision.close["h", "c"] == "memory is short, and it was idle for 90 s"
    shorter = Memory(available_bytes=0, reserve_bytes=301 * MB)
    decision = decide(old_small, new_large, old_large, uses=uses, memory=shorter, now_s=90.0)
    assert list(decision.close) == [("h", "c"), ("h", "b")]


def test_what_is_needed_stays_however_short_memory_is() -> None:
    none_left = Memory(available_bytes=0, reserve_bytes=1000 * MB)
    needed = view(is_needed=True)
    decision = decide(needed, view("idle"), memory=none_left)
    assert decision.keep == {("h", "t")}
    assert list(decision.close) == [("h", "idle")]


def test_what_takes_nothing_that_was_measured_stays_since_that_would_free_nothing() -> None:
    none_left = Memory(available_bytes=0, reserve_bytes=1000 * MB)
    decision = decide(view(memory_bytes=0), memory=none_left)
    assert decision.keep == {("h", "t")}


def test_room_is_made_for_what_is_to_come_by_what_it_took_before() -> None:
    coming = view("new", is_open=False, is_needed=True, is_busy=True, memory_bytes=500 * MB)
    memory = Memory(available_bytes=550 * MB, reserve_bytes=100 * MB)
    assert list(decide(coming, view(), memory=memory).close) == [("h", "t")]
    enough = replace(memory, available_bytes=600 * MB)
    assert decide(coming, view(), memory=enough).close == {}


def test_what_is_not_there_and_not_needed_is_not_made_while_memory_is_short() -> None:
    absent = view("absent", is_open=False)
    memory = Memory(available_bytes=250 * MB, reserve_bytes=100 * MB)
    decision = decide(absent, view(), memory=memory)
    assert decision.keep == {("h", "t")}
    assert decision.close == {}


def test_the_last_template_of_a_host_frees_the_host_too() -> None:
    views = view(host="h1"), view(host="h2")
    memory = Memory(0, 700 * MB, {"h1": 500 * MB, "h2": 500 * MB})
    assert len(decide(*views, memory=memory).close) == 1


def test_what_goes_in_any_case_makes_room_for_the_rest() -> None:
    over, within = view("over", cool_s=1.0), view("within")
    memory = Memory(available_bytes=0, reserve_bytes=200 * MB)
    uses = idle_since(0.0, over, within)
    assert list(decide(over, within, uses=uses, memory=memory, now_s=2.0).close) == [("h", "over")]


def test_where_memory_is_not_known_nothing_goes_for_its_sake() -> None:
    assert decide(view(), memory=None).keep == {("h", "t")}
