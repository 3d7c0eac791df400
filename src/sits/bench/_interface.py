"""What a benchmark declares, what it is given, and what it gives back: samples, no judgement.

Invariants: what is compared is measured in turns within one run, as pairs; a benchmark takes all
its randomness from `Options.seed`; it prints nothing itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sits.bench._errors import BenchError

Tell = Callable[[str], None]
"""Shows a person how far a benchmark is."""


@dataclass(frozen=True)
class Figure:
    """One number that a benchmark gives.

    Attributes:
        name: with its unit of measure, such as `list_ms`.
        meaning: in words, for people.
        target: what it is to be below of, or at least where higher is better; None where there
            is no such promise.
        slack: how much of a change for the worse is noise, as a share; where the figure itself
            is near zero, `floor` says more.
        floor: a change by less than this is none.
        higher_is_better: else smaller is.
        ratio: it has no unit of measure, so that it is compared between all machines, and what a
            machine is slower by is none of it.
    """

    name: str
    meaning: str
    target: float | None = None
    slack: float = 0.15
    floor: float = 0.0
    higher_is_better: bool = False
    ratio: bool = False


@dataclass(frozen=True)
class Samples:
    """Measurements of one figure, each beside the baseline's of the same moment.

    Attributes:
        own: of what is measured.
        baseline: of what it is compared with, in the same order; empty where there is none.
        peers: of others by name, measured in turns with `own`, but not as often.
    """

    own: tuple[float, ...]
    baseline: tuple[float, ...] = ()
    peers: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that they are pairs."""
        if not self.own or len(self.baseline) not in (0, len(self.own)):
            raise BenchError(
                f"{len(self.own)} samples beside {len(self.baseline)} of the baseline; expected "
                "one at least, and as many of each"
            )
        empty = sorted(name for name, samples in self.peers.items() if not samples)
        if empty:
            raise BenchError(f"there are no samples of {', '.join(empty)}; expected one at least")


@dataclass(frozen=True)
class Options:
    """How a benchmark is run.

    Attributes:
        quick: in under a minute, with fewer samples.
        seed: of all that is random in it.
        models_dir: directory of models, so that none is taken in anew; empty: one of its own.
    """

    quick: bool = False
    seed: int = 1
    models_dir: str = ""


@dataclass(frozen=True)
class Measured:
    """What a benchmark found.

    Attributes:
        samples: of each figure that it declares, but for those of `left_out`.
        setting: what the numbers hold for, such as the engine and the count of units.
        load_cpu_share: of one core, that the load generator itself used while it measured.
        proof: what was looked at while it measured, and makes the numbers mean what they say.
        left_out: figures that could not be measured here, and why.
    """

    samples: Mapping[str, Samples]
    setting: Mapping[str, Any] = field(default_factory=dict)
    load_cpu_share: float = 0.0
    proof: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


class Bench(Protocol):
    """A benchmark."""

    @property
    def name(self) -> str:
        """What it is called by."""
        ...

    @property
    def kind(self) -> str:
        """`measurement`, or `simulation`."""
        ...

    @property
    def meaning(self) -> str:
        """What is compared with what, in one line."""
        ...

    @property
    def figures(self) -> tuple[Figure, ...]:
        """What it gives."""
        ...

    def run(self, options: Options, tell: Tell) -> Measured:
        """Measure. Whatever becomes of it, no process and no file of it is left.

        Raises:
            BenchError: it gave no result.
        """
        ...
