"""The content-addressed store of one machine's models.

Invariants: a file is in place when it is whole and its digest was right, whatever ended the
process that brought it; one process at a time brings a digest, others wait for it; what is used
was made for this engine and this CPU.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from sits.models._adapters import pin_adapter
from sits.models._builtins import usable
from sits.models._errors import ModelError, ModelUnavailable, store_errors
from sits.models._hub import HubSettings
from sits.models._inventory import Collected, StoredModel, collect, keep, list_models, remove
from sits.models._layout import Layout, write_json
from sits.models._locks import hold
from sits.models._pin import model_name, pin_reference
from sits.models._prepare import DEFAULT_PREPARE, find_prepared, run_prepare
from sits.models._records import OwnerRecord, read_record
from sits.models._take import find_source, take_source
from sits.models._types import ModelFile, ModelKind, ModelPin, PullProgress
from sits.spec import (
    AdapterReference,
    ModelReference,
    ModelScheme,
    parse_model_reference,
)

_REPORT_S = 0.2
AS_SHIPPED = "as shipped"


class PullOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a pulling process is told: `python -m sits.models pull JSON`."""

    root: str
    pin: ModelPin
    prepare: tuple[str, ...]
    hub: HubSettings
    parent_pid: int


class ModelStore:
    """Models on this machine: what references mean, and the files for the engine.

    Args:
        root: its directory, made when it is missing, open to this user alone.
        prepare: the command that prepares a file for the engine (`prepare_command`); None or
            empty: files are taken as they were shipped.
        hub: how the model hub is asked.
    """

    def __init__(
        self,
        root: Path,
        *,
        prepare: tuple[str, ...] | None = DEFAULT_PREPARE,
        hub: HubSettings | None = None,
    ) -> None:
        self._layout = Layout(root)
        self._prepare = prepare or ()
        self._hub = hub or HubSettings()

    @property
    def root(self) -> Path:
        """The store's directory."""
        return self._layout.root

    def pin(self, reference: ModelReference) -> ModelPin:
        """Return what a reference means now. Blocks; may ask the hub, for about 20 s at most.

        When the hub cannot be asked, and the reference was pinned before and is here, that pin
        holds.

        Raises:
            ModelError: no model that can be run; the message says what can be used.
            ModelUnavailable: the hub cannot be asked now.
        """
        with store_errors(self.root):
            self._layout.make()
            try:
                pin = pin_reference(self._layout, self._hub, reference)
            except ModelUnavailable as error:
                if reference.scheme is not ModelScheme.HUGGINGFACE:
                    raise
                known = read_record(self._layout.pin(str(reference)), ModelPin)
                if known and self._is_here(known):
                    return known
                raise ModelUnavailable(
                    f"{error}. Without the hub there are {usable()}, and file:///PATH.gguf",
                    error.retry_after_s,
                ) from error
            self._remember(reference, pin)
            return pin

    def pin_adapter(self, reference: AdapterReference, model: ModelPin) -> ModelPin:
        """Return what a reference to an adapter of a model means now. Blocks.

        Raises:
            ModelError: no adapter that the model can have; what is wrong with it is said.
            ModelUnavailable: not now.
        """
        with store_errors(self.root):
            self._layout.make()
            pin = pin_adapter(self._layout, reference, model)
            self._remember(reference, pin)
            return pin

    def _remember(self, reference: ModelReference | AdapterReference, pin: ModelPin) -> None:
        """Write down what a reference meant, for when its source cannot be asked."""
        try:
            write_json(self._layout.pin(str(reference)), pin)
        except OSError:
            if not self._is_here(pin):  # a full disk keeps nobody from what is here already
                raise

    def find(self, pin: ModelPin) -> ModelFile | None:
        """Return the file that the engine is given; None: it has to be pulled. Quick, local.

        Raises:
            ModelError: the pin's digest is malformed.
        """
        if pin.kind is ModelKind.ADAPTER:
            representation, path = "LoRA", None
        elif self._prepare:
            found = find_prepared(self._layout, pin.digest, self._prepare)
            if found is None:
                return None
            representation, path = found[0].representation, found[1]
        else:
            representation, path = AS_SHIPPED, None
        path = path or find_source(self._layout, pin.digest)
        if path is None:
            return None
        try:
            real = path.resolve(strict=True)
            size = real.stat().st_size
        except OSError:
            return None
        name = model_name(parse_model_reference(pin.reference))
        return ModelFile(real, name, size, pin.digest, pin.kind, representation)

    def pull(self, pin: ModelPin, on_progress: Callable[[PullProgress], None]) -> ModelFile:
        """Bring a model here and prepare it, once for all processes that ask. Blocks.

        Args:
            pin: which.
            on_progress: is told what is done, a few times a second, and the end of it. What it
                raises ends the pull; a later one goes on from where this one was.

        Raises:
            ModelError: it cannot be had, or the engine cannot run it.
            ModelUnavailable: it cannot be had now; what has come is kept.
            ModelStoreFull: there is no room for it.
        """
        report = _throttled(on_progress)
        try:
            with store_errors(self.root):
                self._layout.make()
                file = self._pull(pin, report)
        except ModelError as error:
            on_progress(PullProgress("failed", message=str(error), retryable=error.retryable))
            raise
        done = f"{file.name}: {file.representation}"
        on_progress(PullProgress("done", file.size_bytes, file.size_bytes, done))
        return file

    def pull_command(self, pin: ModelPin) -> tuple[str, ...]:
        """Return the command of a process that pulls; it has to be started by this process.

        It writes one `PullProgress` as JSON on each line of its output, and ends with status 0 or
        1, or when this process ends.
        """
        order = PullOrder(str(self.root), pin, self._prepare, self._hub, os.getpid())
        return (sys.executable, "-m", "sits.models", "pull", msgspec.json.encode(order).decode())

    def keep(self, owner: Path, digests: Iterable[str]) -> None:
        """Say what the platform of one home needs, in the place of what it needed before.

        Say it before pulling: what nobody needs may be collected at any time.

        Args:
            owner: the platform's home; once that directory is gone it needs nothing.
            digests: of the source files, as in pins.

        Raises:
            ModelError: the store cannot be written.
        """
        with store_errors(self.root):
            self._layout.make()
            home = owner.absolute()
            keep(self._layout, OwnerRecord(str(home), tuple(sorted(set(digests)))))

    def list_models(self) -> list[StoredModel]:
        """Return what is here, by reference.

        Raises:
            ModelError: the store cannot be read.
        """
        with store_errors(self.root):
            if self.root.exists():
                os.listdir(self.root)  # a file, or a directory of somebody else, is not "no models"
            return list_models(self._layout, self._prepare)

    def remove(self, name: str) -> StoredModel:
        """Remove a model by one of its references, or by the beginning of its digest.

        Raises:
            ModelError: there is none, there is more than one, or a platform needs it.
            ModelUnavailable: it is being pulled.
        """
        with store_errors(self.root):
            return remove(self._layout, self._prepare, name)

    def collect(self, *, dry_run: bool = False) -> Collected:
        """Remove what no platform needs, and what is left of old downloads.

        Args:
            dry_run: tell what would be removed, and remove nothing.
        """
        with store_errors(self.root):
            return collect(self._layout, self._prepare, dry_run=dry_run)

    def _is_here(self, pin: ModelPin) -> bool:
        return self.find(pin) is not None or find_source(self._layout, pin.digest) is not None

    def _pull(self, pin: ModelPin, report: Callable[[PullProgress], None]) -> ModelFile:
        reference = parse_model_reference(pin.reference)

        def on_wait() -> None:
            report(PullProgress("waiting", message="another process takes this model in"))

        if found := self.find(pin):
            return found
        with hold(self._layout.lock(pin.digest), on_wait):
            if found := self.find(pin):
                return found
            source = find_source(self._layout, pin.digest)
            if source is None:
                source = take_source(self._layout, self._hub, pin, reference, report)
            if self._prepare and pin.kind is not ModelKind.ADAPTER:
                message = "choosing and writing the fastest form for this machine"
                report(PullProgress("preparing", message=message))
                run_prepare(self._layout, pin.digest, source, self._prepare)
            found = self.find(pin)
        if found is None:
            raise ModelUnavailable(f"{pin.named} was taken in and is gone; try again")
        return found


def _throttled(on_progress: Callable[[PullProgress], None]) -> Callable[[PullProgress], None]:
    """Return a function that passes on each change of what is done, and else five a second."""
    last: tuple[str, str] = ("", "")
    next_s = 0.0

    def report(progress: PullProgress) -> None:
        nonlocal last, next_s
        now_s = time.monotonic()
        is_news = bool(progress.message) and (progress.state, progress.message) != last
        if is_news or progress.state != last[0] or now_s >= next_s:
            last = (progress.state, progress.message)
            next_s = now_s + _REPORT_S
            on_progress(progress)

    return report
