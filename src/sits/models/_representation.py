"""Which form of a model's weights this machine is given: the decision, without doing anything.

What is known, measured with SmolLM2 135M on a CPU with AVX512_BF16: expanding Q4_1 to BF16 keeps
what the model knows (perplexity 14.842 against 14.855) and makes prompts three times, batches
one and a half times as fast, for three times the memory. Fewer bits than were shipped ruin a
model (Q4_0 made from Q4_1: perplexity 18.66), so that is never done. Rounding a block of at most
eight bits to BF16 costs at most half of what its quantisation did; F16 and F32 would lose more,
so they stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

BF16, F16, Q8_0 = "BF16", "F16", "Q8_0"
_BYTES_PER_ELEMENT = {BF16: 2.0, F16: 2.0, Q8_0: 34 / 32}
_FLOATS = frozenset({"BF16", "F16", "F32", "F64"})
# Q8_0 holds these without a loss that shows; to those of six bits and more it adds its own.
_COARSE = frozenset(
    {"Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S"}
    | {"IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "MXFP4", "TQ1_0", "TQ2_0"}
)
_FAST_BF16 = frozenset({"avx512_bf16", "amx_bf16"})
_MEMORY_SHARE = 0.25
_WORTH_IT = 0.9
_DECODE_STEPS = 64


class Action(StrEnum):
    """What to do with a file that is taken in."""

    TAKE = "take"
    EXPAND = "expand"
    MEASURE = "measure"


@dataclass(frozen=True)
class Machine:
    """What a machine has.

    Attributes:
        flags: features of its CPU, as Linux names them.
    """

    flags: frozenset[str]
    memory_bytes: int
    free_disk_bytes: int


@dataclass(frozen=True)
class Plan:
    """What to do, and why.

    Attributes:
        candidates: with `EXPAND` the one form to make, with `MEASURE` those to make and time
            against the file as shipped.
    """

    action: Action
    candidates: tuple[str, ...]
    reason: str


def decide_representation(elements: Mapping[str, int], machine: Machine) -> Plan:
    """Decide what to make of a file's weights.

    Args:
        elements: type of tensor to how many numbers the file has of it.
        machine: where it will run.
    """
    shipped = max(elements, key=lambda name: elements[name], default="")
    if shipped in _FLOATS or not shipped:
        return Plan(Action.TAKE, (), f"{shipped or 'nothing'} is not quantised: taken as shipped")
    total = sum(elements.values())
    fitting = tuple(name for name in _faithful(shipped) if _fits(name, total, machine))
    if not fitting:
        return Plan(
            Action.TAKE,
            (),
            f"{shipped} taken as shipped: no larger form fits into a quarter of the memory "
            "and the free disk",
        )
    if BF16 in fitting and machine.flags & _FAST_BF16:
        return Plan(Action.EXPAND, (BF16,), f"{shipped} expanded: this CPU computes with BF16")
    return Plan(Action.MEASURE, fitting, f"{shipped} measured against {', '.join(fitting)}")


def choose_measured(shipped: str, times_ms: Mapping[str, tuple[float, float]]) -> tuple[str, str]:
    """Choose the fastest form; a larger one has to be faster by a tenth to be worth its memory.

    Args:
        shipped: the form of the file as it came; has to be among those measured.
        times_ms: form to (prefill of 300 tokens, one step of a batch of 8).

    Returns:
        The form, and why.
    """
    total = {name: first + _DECODE_STEPS * step for name, (first, step) in times_ms.items()}
    best = min(total, key=lambda name: total[name])
    if total[best] > _WORTH_IT * total[shipped]:
        return shipped, f"measured: nothing is faster than {shipped} by a tenth"
    share = total[shipped] / total[best]
    return best, f"measured: {best} is {share:.1f} times as fast as {shipped}"


def _faithful(shipped: str) -> Sequence[str]:
    return (BF16, F16, Q8_0) if shipped in _COARSE else (BF16, F16)


def _fits(name: str, elements: int, machine: Machine) -> bool:
    size = elements * _BYTES_PER_ELEMENT[name]
    return size <= min(machine.memory_bytes * _MEMORY_SHARE, machine.free_disk_bytes)
