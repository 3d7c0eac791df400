"""The decision holds for any file and machine, not only for those of the table."""

from hypothesis import given
from hypothesis import strategies as st

from sits.models import Action, Machine, choose_measured, decide_representation

# Bits of each number, blocks' scales included, from ggml's block sizes.
BITS = {"Q2_K": 2.625, "Q4_0": 4.5, "Q4_1": 5.0, "Q4_K": 4.5, "Q5_K": 5.5, "Q6_K": 6.5625}
BITS |= {"Q8_0": 8.5, "F16": 16, "BF16": 16, "F32": 32}
FLAGS = ["avx2", "avx512f", "avx512_bf16", "amx_bf16"]

machines = st.builds(
    Machine,
    st.frozensets(st.sampled_from(FLAGS)),
    st.integers(10**9, 10**12),
    st.integers(0, 10**12),
)
files = st.dictionaries(st.sampled_from(sorted(BITS)), st.integers(1, 10**12), min_size=1)


@given(files, machines)
def test_what_is_made_fits_and_has_more_bits(elements: dict[str, int], machine: Machine) -> None:
    plan = decide_representation(elements, machine)
    shipped = max(elements, key=lambda name: elements[name])
    assert (plan.action is Action.TAKE) == (not plan.candidates)
    for name in plan.candidates:
        size = sum(elements.values()) * BITS[name] / 8
        assert size <= machine.memory_bytes / 4
        assert size <= machine.free_disk_bytes
        assert BITS[name] > BITS[shipped]


@given(files, machines)
def test_what_is_already_floats_stays(elements: dict[str, int], machine: Machine) -> None:
    if max(elements, key=lambda name: elements[name]) in {"F16", "BF16", "F32"}:
        assert decide_representation(elements, machine).action is Action.TAKE


times = st.floats(0.1, 1e5)


@given(st.dictionaries(st.sampled_from(sorted(BITS)), st.tuples(times, times), min_size=1))
def test_what_is_chosen_is_never_slower_than_what_was_shipped(
    measured: dict[str, tuple[float, float]],
) -> None:
    shipped = next(iter(measured))
    chosen, reason = choose_measured(shipped, measured)
    assert reason
    total = {name: first + 64 * step for name, (first, step) in measured.items()}
    assert total[chosen] <= total[shipped]
