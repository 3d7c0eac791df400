"""The table of which form of the weights a machine is given."""

import pytest

from sits.models import Action, Machine, choose_measured, decide_representation

GB = 10**9
ZEN5 = frozenset({"avx2", "avx512f", "avx512_bf16"})
OLD = frozenset({"avx2"})
# SmolLM2 135M as shipped: tensors of each type, counted with the `gguf` package.
SMOLLM2 = {"Q4_1": 106_168_320, "Q8_0": 28_311_552, "F32": 35_136}
# An 8B model has 8e9 numbers: 16 GB in BF16 or F16, 8.5 GB in Q8_0.
BIG = {"Q4_K": 8 * GB}


@pytest.mark.parametrize(
    ("elements", "flags", "memory", "disk", "action", "candidates"),
    [
        (SMOLLM2, ZEN5, 24 * GB, 50 * GB, Action.EXPAND, ("BF16",)),
        (SMOLLM2, ZEN5 | {"amx_bf16"}, 24 * GB, 50 * GB, Action.EXPAND, ("BF16",)),
        (SMOLLM2, OLD, 24 * GB, 50 * GB, Action.MEASURE, ("BF16", "F16", "Q8_0")),
        ({"Q6_K": 100}, OLD, 24 * GB, 50 * GB, Action.MEASURE, ("BF16", "F16")),
        ({"Q8_0": 100}, ZEN5, 24 * GB, 50 * GB, Action.EXPAND, ("BF16",)),
        ({"BF16": 100, "F32": 1}, ZEN5, 24 * GB, 50 * GB, Action.TAKE, ()),
        ({"F16": 100, "F32": 1}, ZEN5, 24 * GB, 50 * GB, Action.TAKE, ()),
        ({"F32": 100}, ZEN5, 24 * GB, 50 * GB, Action.TAKE, ()),
        ({}, ZEN5, 24 * GB, 50 * GB, Action.TAKE, ()),
        (BIG, ZEN5, 64 * GB, 50 * GB, Action.EXPAND, ("BF16",)),
        (BIG, ZEN5, 63 * GB, 50 * GB, Action.MEASURE, ("Q8_0",)),
        (BIG, ZEN5, 64 * GB, 15 * GB, Action.MEASURE, ("Q8_0",)),
        (BIG, ZEN5, 33 * GB, 50 * GB, Action.TAKE, ()),
        (BIG, OLD, 64 * GB, 8 * GB, Action.TAKE, ()),
    ],
)
def test_table(
    elements: dict[str, int],
    flags: frozenset[str],
    memory: int,
    disk: int,
    action: Action,
    candidates: tuple[str, ...],
) -> None:
    plan = decide_representation(elements, Machine(flags, memory, disk))
    assert (plan.action, plan.candidates) == (action, candidates)
    assert plan.reason


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        # Measured on two Zen 5 cores: TTFT of 300 tokens, a step of 8 (8 / tokens per second).
        ({"Q4_1": (580, 25.9), "BF16": (174, 17.3), "F16": (240, 22.3)}, "BF16"),
        ({"Q4_1": (580, 25.9), "Q8_0": (275, 22.9), "F16": (240, 22.3)}, "F16"),
        # 100 + 64 x 1 = 164 against 155: faster, but not by a tenth.
        ({"Q4_1": (100, 1.0), "BF16": (91, 1.0)}, "Q4_1"),
        ({"Q4_1": (100, 1.0), "BF16": (80, 1.0)}, "BF16"),
        ({"Q4_1": (100, 1.0), "BF16": (300, 5.0)}, "Q4_1"),
    ],
)
def test_a_larger_form_has_to_be_faster_by_a_tenth(
    times: dict[str, tuple[float, float]], chosen: str
) -> None:
    assert choose_measured("Q4_1", times)[0] == chosen


@pytest.mark.parametrize("shipped", ["Q2_K", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K", "Q8_0"])
def test_weights_are_never_made_into_fewer_bits(shipped: str) -> None:
    bits = {"Q2_K": 2, "Q4_0": 4, "Q4_1": 4, "Q4_K": 4, "Q5_K": 5, "Q6_K": 6, "Q8_0": 8}
    bits |= {"BF16": 16, "F16": 16}
    plan = decide_representation({shipped: 1000}, Machine(OLD, 24 * GB, 50 * GB))
    assert plan.candidates
    assert all(bits[name] > bits[shipped] for name in plan.candidates)
