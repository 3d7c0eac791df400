"""Sets of low-rank adapters: what a step computes with, beside the model's own weights."""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

from sits.runtime.engine._errors import EngineError


@dataclass(frozen=True)
class AdapterFile:
    """One adapter, as strong as it is meant.

    Attributes:
        path: a GGUF file.
        digest: of its bytes: two with the same are the same.
        scale: what its change of the weights is multiplied by; 1: as it was trained.
    """

    path: str
    digest: str
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.digest or not math.isfinite(self.scale):
            raise EngineError(
                f"adapter {self.path}: digest {self.digest!r}, scale {self.scale}; give a digest "
                "that is not empty and a number"
            )


@dataclass(frozen=True)
class AdapterSet:
    """Adapters that are applied together. Without any: the model alone."""

    files: tuple[AdapterFile, ...] = ()

    @cached_property
    def digest(self) -> str:
        """What tells the set from others; empty for the model alone."""
        if not self.files:
            return ""
        words = "\n".join(f"{file.digest} {float(file.scale).hex()}" for file in self.files)
        return hashlib.sha256(words.encode()).hexdigest()
