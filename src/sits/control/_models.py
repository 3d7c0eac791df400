"""The files of units' models: found, or missing and looked for again from time to time.

A file that is away when control starts may come back (a mount, a package), and nothing tells:
so what is missing is looked for again, at growing intervals, up to 30 s.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sits.models import ModelError, ModelFile
from sits.policy import Backoff, after_failure, may_try
from sits.spec import ModelReference


class Resolve(Protocol):
    """Finds a model's file, or raises `ModelError`."""

    def __call__(self, reference: ModelReference, *, home: Path) -> ModelFile:
        """Return the file that the reference names."""
        ...


@dataclass(frozen=True)
class Found:
    """What came of looking: a file, or why there is none and when to look again."""

    model: ModelFile | None
    problem: str | None = None
    retry_at_s: float | None = None


class Models:
    """Looks for models' files, and remembers those that are missing.

    Args:
        resolve: finds one.
        home: the platform's directory.
    """

    def __init__(self, resolve: Resolve, home: Path) -> None:
        self._resolve = resolve
        self._home = home
        self._missing: dict[ModelReference, Backoff] = {}

    def resolve(self, reference: ModelReference) -> ModelFile:
        """Look for a file now, whatever was known of it.

        Raises:
            ModelError: it is not there.
        """
        model = self._resolve(reference, home=self._home)
        self._missing.pop(reference, None)
        return model

    def find(self, reference: ModelReference, now_s: float) -> Found:
        """Return a file, or what was known of it while it is not yet time to look again."""
        missing = self._missing.get(reference, Backoff())
        if may_try(missing, now_s):
            try:
                return Found(self.resolve(reference))
            except ModelError as error:
                missing = after_failure(missing, str(error), now_s)
                self._missing[reference] = missing
        return Found(None, missing.reason, missing.retry_at_s)

    def is_due(self, now_s: float) -> bool:
        """Return whether it is time to look for something that was missing."""
        return any(may_try(missing, now_s) for missing in self._missing.values())

    def keep(self, references: Iterable[ModelReference]) -> None:
        """Forget all that no unit names any more."""
        named = set(references)
        self._missing = {name: value for name, value in self._missing.items() if name in named}
