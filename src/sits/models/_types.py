"""What the rest of the platform knows of a model."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class ModelKind(StrEnum):
    """What a model makes of its input; an adapter makes nothing by itself, and changes a model."""

    CHAT = "chat"
    EMBEDDING = "embedding"
    ADAPTER = "adapter"


@dataclass(frozen=True)
class ModelPin:
    """One model or adapter, for ever: what a reference meant when a unit was deployed.

    Attributes:
        reference: as the unit has it.
        digest: `sha256:` and 64 hex digits, of the source file.
        size_bytes: of the source file.
        commit: the commit at the hub; None where it does not come from one.
        file: the path inside the hub's repository; None where it does not come from one.
    """

    reference: str
    digest: str
    size_bytes: int
    kind: ModelKind
    commit: str | None = None
    file: str | None = None

    @property
    def named(self) -> str:
        """What messages call it."""
        noun = "adapter" if self.kind is ModelKind.ADAPTER else "model"
        return f"{noun} '{self.reference}'"


@dataclass(frozen=True)
class ModelFile:
    """A model that is here, in the form that the engine is given.

    Attributes:
        path: absolute, with symbolic links resolved.
        name: what people call the model.
        size_bytes: of the file at `path`.
        digest: of the source file, as in its pin.
        representation: of the weights, such as BF16.
    """

    path: Path
    name: str
    size_bytes: int
    digest: str = ""
    kind: ModelKind = ModelKind.CHAT
    representation: str = ""


@dataclass(frozen=True)
class PullProgress:
    """How far the taking in of a model is.

    Attributes:
        state: `waiting` (another process does it), `downloading`, `preparing`, `done`,
            `failed`.
        message: the same for people; on `failed`, why and what to do.
        retryable: on `failed`: a later try may do better.
    """

    state: str
    done_bytes: int = 0
    total_bytes: int = 0
    message: str = ""
    retryable: bool = False
