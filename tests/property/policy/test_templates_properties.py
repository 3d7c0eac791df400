"""Templates through any state of a machine: what is never closed, and what is always freed."""

from hypothesis import given
from hypothesis import strategies as st

from sits.policy import Memory, TemplateUse, TemplateView, decide_templates

KEYS = [(host, tenant) for host in ("h1", "h2") for tenant in ("a", "b", "c")]
NOW_S = 1000.0


@st.composite
def views(draw: st.DrawFn) -> list[TemplateView]:
    found = []
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
        is_busy = draw(st.booleans())
        found.append(
            TemplateView(
                *key,
                is_needed=is_busy or draw(st.booleans()),
                is_busy=is_busy,
                is_open=draw(st.booleans()),
                cool_s=draw(st.floats(0.1, 2000.0)),
                memory_bytes=draw(st.integers(0, 100)),
            )
        )
    return found


USES = st.dictionaries(
    st.sampled_from(KEYS),
    st.builds(TemplateUse, st.floats(0.0, NOW_S), st.booleans(), st.booleans()),
)
MEMORIES = st.builds(
    Memory,
    st.integers(0, 500),
    st.integers(0, 500),
    st.dictionaries(st.sampled_from(["h1", "h2"]), st.integers(0, 50)),
)


def freed(found: list[TemplateView], closed: set[tuple[str, str]], memory: Memory) -> int:
    """What closing these frees: each by itself, and hosts on which nothing is left open."""
    size = sum(view.memory_bytes for view in found if view.key in closed)
    for host, host_bytes in memory.hosts.items():
        open_there = {view.key for view in found if view.host == host and view.is_open}
        size += host_bytes if open_there and open_there <= closed else 0
    return size


@given(views(), USES, MEMORIES)
def test_nothing_that_is_needed_is_ever_closed(
    found: list[TemplateView], uses: dict[tuple[str, str], TemplateUse], memory: Memory
) -> None:
    decision = decide_templates(uses, found, memory, NOW_S)
    needed = {view.key for view in found if view.is_needed}
    assert needed <= decision.keep
    assert not decision.keep & decision.close.keys()
    assert decision.close.keys() == {v.key for v in found if v.is_open} - decision.keep
    assert decision.uses.keys() == {view.key for view in found}


@given(views(), USES, MEMORIES)
def test_where_memory_is_short_at_the_end_all_that_can_free_any_has_gone(
    found: list[TemplateView], uses: dict[tuple[str, str], TemplateUse], memory: Memory
) -> None:
    decision = decide_templates(uses, found, memory, NOW_S)
    room = memory.available_bytes + freed(found, set(decision.close), memory)
    kept = [view for view in found if view.key in decision.keep]
    room -= sum(view.memory_bytes for view in kept if not view.is_open)
    if room < memory.reserve_bytes:
        for view in kept:
            assert view.is_needed or (view.is_open and view.memory_bytes == 0)


@given(views(), USES, MEMORIES)
def test_what_goes_for_memorys_sake_is_worth_less_than_what_could_have(
    found: list[TemplateView], uses: dict[tuple[str, str], TemplateUse], memory: Memory
) -> None:
    decision = decide_templates(uses, found, memory, NOW_S)
    calm = decide_templates(uses, found, None, NOW_S)
    forced = [v for v in found if v.is_open and v.key in calm.keep - decision.keep]
    spared = [
        v
        for v in found
        if v.is_open and not v.is_needed and v.memory_bytes and v.key in decision.keep
    ]

    def load(view: TemplateView) -> float:
        return (NOW_S - decision.uses[view.key].used_s) * view.memory_bytes

    assert all(load(gone) >= load(left) for gone in forced for left in spared)


@given(views(), USES)
def test_a_decision_made_at_its_due_time_changes_something(
    found: list[TemplateView], uses: dict[tuple[str, str], TemplateUse]
) -> None:
    decision = decide_templates(uses, found, None, NOW_S)
    if decision.due_s is not None:
        assert decision.due_s > NOW_S
        later = decide_templates(decision.uses, found, None, decision.due_s)
        assert later.keep < decision.keep
        again = decide_templates(later.uses, found, None, NOW_S)  # the clock goes back
        assert again.keep == later.keep
