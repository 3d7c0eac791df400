"""Models without files: every builtin there is, taken in at once unless told otherwise."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import anyio

from sits.models import ModelError, ModelFile, ModelKind, ModelPin, PullProgress
from sits.spec import AdapterReference, AdapterScheme, ModelReference, ModelScheme


class FakeModels:
    """Where control gets models from, in memory.

    Attributes:
        missing: names of builtins that cannot be pinned; None stands for all.
        away: names whose files are not here, until `pull` has taken them in.
        failures: why the next pulls fail, in order.
        hold: pulls wait for this event, if there is one.
        kept: what was asked to be kept last.
        pulled: references, in the order in which their pulls began.
    """

    def __init__(self) -> None:
        self.missing: set[str | None] = set()
        self.away: set[str] = set()
        self.failures: list[ModelError] = []
        self.hold: anyio.Event | None = None
        self.kept: frozenset[str] = frozenset()
        self.pulled: list[str] = []
        self._began = anyio.Event()

    def pin(self, reference: ModelReference) -> ModelPin:
        """Return a pin whose digest follows from the name. Raises `ModelError`."""
        if reference.scheme is not ModelScheme.BUILTIN or self.missing & {None, reference.name}:
            raise ModelError(f"model '{reference}' is not here; use builtin://small")
        digest = "sha256:" + hashlib.sha256(reference.name.encode()).hexdigest()
        kind = ModelKind.EMBEDDING if reference.name.startswith("embed") else ModelKind.CHAT
        return ModelPin(str(reference), digest, 1, kind)

    def pin_adapter(self, reference: AdapterReference, model: ModelPin) -> ModelPin:
        """Return a pin whose digest follows from the path. Raises `ModelError`."""
        if reference.scheme is not AdapterScheme.FILE or reference.name in self.missing:
            raise ModelError(f"adapter '{reference}' of {model.named} is not here")
        digest = "sha256:" + hashlib.sha256(reference.name.encode()).hexdigest()
        return ModelPin(str(reference), digest, 1, ModelKind.ADAPTER)

    def find(self, pin: ModelPin) -> ModelFile | None:
        """Return the file of a model or an adapter that is here."""
        name = pin.reference.partition("://")[2]
        if name in self.away or None in self.missing:
            return None
        is_adapter = pin.kind is ModelKind.ADAPTER
        path = Path(name) if is_adapter else Path(f"/models/{name}.gguf")
        return ModelFile(path, name, pin.size_bytes, pin.digest, pin.kind)

    def keep(self, owner: Path, digests: Iterable[str]) -> None:
        """Note what is to be kept."""
        self.kept = frozenset(digests)

    async def pulls(self, count: int, within_s: float = 5.0) -> None:
        """Wait until so many pulls have begun. Raises `TimeoutError`."""
        with anyio.fail_after(within_s):
            while len(self.pulled) < count:
                await self._began.wait()

    async def pull(self, pin: ModelPin, on_progress: Callable[[PullProgress], None]) -> None:
        """Take a model in. Raises `ModelError`."""
        self.pulled.append(pin.reference)
        began, self._began = self._began, anyio.Event()
        began.set()
        on_progress(PullProgress("downloading", 1, 2))
        if self.hold is not None:
            await self.hold.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.away.discard(pin.reference.partition("://")[2])
        on_progress(PullProgress("done", 2, 2))
