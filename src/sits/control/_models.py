"""The models of units: pinned when they are deployed, taken in when they are needed.

Invariants: what may take long does not hold up the loop: the hub is asked in a thread, with a
deadline, and a model is taken in by a process of its own (whether one is here, and which are
kept, are small files of the local store); one model is taken in once, however many units need
it; what failed is tried again at growing intervals, up to 30 s, since a hub or a mount that is
away tells nobody when it comes back.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
import anyio.abc
import anyio.to_thread

from sits.control._clock import Clock, wait_until
from sits.control._pins import Pins
from sits.models import ModelError, ModelFile, ModelPin, PullProgress
from sits.policy import Backoff, after_failure, may_try
from sits.spec import AdapterReference, ModelReference, Unit, served_adapters

_PIN_S = 60.0
_PULLS = 2

log = logging.getLogger(__name__)


class ModelSource(Protocol):
    """Where models come from. `sits.models.ModelStore`, behind `StoreSource`, is the real one."""

    def pin(self, reference: ModelReference) -> ModelPin:
        """Return what a reference means now. Blocks. Raises `ModelError`."""
        ...

    def pin_adapter(self, reference: AdapterReference, model: ModelPin) -> ModelPin:
        """Return what a reference to a model's adapter means now. Blocks. Raises `ModelError`."""
        ...

    def find(self, pin: ModelPin) -> ModelFile | None:
        """Return a model or an adapter that has been taken in. Quick."""
        ...

    def keep(self, owner: Path, digests: Iterable[str]) -> None:
        """Keep these models, and no others for this owner's sake."""
        ...

    async def pull(self, pin: ModelPin, on_progress: Callable[[PullProgress], None]) -> None:
        """Take a model in. Cancelling ends that. Raises `ModelError`."""
        ...


@dataclass(frozen=True)
class Found:
    """What is known of a model: its file, why there is none, or how far it is."""

    model: ModelFile | None
    problem: str | None = None
    progress: str | None = None


@dataclass(frozen=True)
class PullEnd:
    """The taking in of a model began or ended.

    Attributes:
        problem: why it failed; None where it did not.
    """

    digest: str
    reason: str
    message: str
    problem: str | None = None


@dataclass
class _Pull:
    """A model that is not here yet."""

    pin: ModelPin
    failures: Backoff = field(default_factory=Backoff)
    progress: PullProgress | None = None
    scope: anyio.CancelScope | None = None

    @property
    def found(self) -> Found:
        if self.scope is not None:
            return Found(None, progress=_words(self.progress))
        if self.failures.failures:
            return Found(None, problem=self.failures.reason)
        return Found(None, progress="it waits for its turn")


class Models:
    """Pins and takes in what units name.

    Args:
        source: where models come from.
        home: this platform's directory, for whose sake they are kept.
        on_change: told when the taking in of a model begins and how it ends.
    """

    def __init__(
        self, source: ModelSource, home: Path, clock: Clock, on_change: Callable[[PullEnd], None]
    ) -> None:
        self._source = source
        self._home = home
        self._clock = clock
        self._on_change = on_change
        self._pulls: dict[str, _Pull] = {}
        self._wake = anyio.Event()

    async def pin(self, unit: Unit) -> Pins:
        """Find out what the references of a unit with a model here mean now.

        Raises:
            ModelError: nothing that can be run here, or nobody who knows can be asked.
        """
        model = await _look_up(f"model '{unit.model}'", partial(self._source.pin, unit.model))
        adapters = [
            await _look_up(
                f"adapter '{each.adapter}'", partial(self._source.pin_adapter, each.adapter, model)
            )
            for each in served_adapters(unit)
        ]
        return Pins(model, tuple(adapters))

    def find(self, pin: ModelPin) -> Found:
        """Return what is known of a model, and have it taken in if it is not here."""
        try:
            model = self._source.find(pin)
        except ModelError as error:
            return Found(None, problem=str(error))
        if model is not None:
            self._pulls.pop(pin.digest, None)
            return Found(model)
        if pin.digest not in self._pulls:
            self._pulls[pin.digest] = _Pull(pin)
            self._wake.set()
        elif self._pulls[pin.digest].scope is None:
            self._pulls[pin.digest].pin = pin  # the same bytes, perhaps from another place
        return self._pulls[pin.digest].found

    def keep(self, digests: Iterable[str]) -> None:
        """Say which models are not to be removed. Writes to the disk."""
        self._source.keep(self._home, digests)

    def need(self, digests: Iterable[str]) -> None:
        """Say which models are needed now: the taking in of others ends."""
        for digest in self._pulls.keys() - set(digests):
            pull = self._pulls.pop(digest)
            if pull.scope is not None:
                pull.scope.cancel()

    def retry(self, digest: str) -> None:
        """Try at once what failed: somebody deployed it again."""
        pull = self._pulls.get(digest)
        if pull is not None:
            pull.failures = Backoff()
            self._wake.set()

    async def run(self) -> None:
        """Take in what is missing, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                self._wake = anyio.Event()
                self._start_some(group)
                await wait_until(self._clock, self._wake, self._due_s())

    def _start_some(self, group: anyio.abc.TaskGroup) -> None:
        now_s = self._clock.monotonic_s()
        running = sum(pull.scope is not None for pull in self._pulls.values())
        for pull in self._pulls.values():
            if running >= _PULLS:
                return
            if pull.scope is None and may_try(pull.failures, now_s):
                pull.scope = anyio.CancelScope()
                running += 1
                group.start_soon(self._pull, pull, pull.scope)

    def _due_s(self) -> float | None:
        """Return when a failed one may be tried again; None: not before we are woken."""
        idle = [pull for pull in self._pulls.values() if pull.scope is None]
        if len(self._pulls) - len(idle) >= _PULLS:
            return None  # the end of one that runs wakes us
        times = [pull.failures.retry_at_s for pull in idle if pull.failures.retry_at_s]
        return min(times, default=None)

    async def _pull(self, pull: _Pull, scope: anyio.CancelScope) -> None:
        pin, began_s = pull.pin, self._clock.monotonic_s()

        def on_progress(progress: PullProgress) -> None:
            pull.progress = progress

        if not pull.failures.failures:  # what is tried again and again is told once
            self._tell(PullEnd(pin.digest, "PullingModel", f"{pin.reference} is being taken in"))
        with scope:
            try:
                await self._source.pull(pin, on_progress)
            except ModelError as error:
                now_s = self._clock.monotonic_s()
                pull.failures = after_failure(pull.failures, str(error), now_s)
                pull.scope = None
                self._tell(PullEnd(pin.digest, "ModelFailed", str(error), str(error)))
            else:
                self._pulls.pop(pin.digest, None)
                took_s = self._clock.monotonic_s() - began_s
                message = f"{pin.reference} was taken in after {took_s:.1f} s"
                self._tell(PullEnd(pin.digest, "ModelReady", message))
        pull.scope = None
        self._wake.set()

    def _tell(self, end: PullEnd) -> None:
        level = logging.INFO if end.problem is None else logging.WARNING
        log.log(level, "event=%s digest=%s message=%r", end.reason, end.digest, end.message)
        self._on_change(end)


async def _look_up(what: str, pin: Callable[[], ModelPin]) -> ModelPin:
    """Run what blocks in a thread, and not for ever. Raises `ModelError`."""
    try:
        with anyio.fail_after(_PIN_S):
            return await anyio.to_thread.run_sync(pin, abandon_on_cancel=True)
    except TimeoutError as error:
        raise ModelError(
            f"{what} could not be looked up within {_PIN_S:.0f} s; see whether its disk or hub "
            "answers, and deploy again"
        ) from error


def _words(progress: PullProgress | None) -> str:
    if progress is None:
        return "it is being taken in"
    if progress.message:
        return progress.message
    if progress.total_bytes:
        share = 100 * progress.done_bytes / progress.total_bytes
        size_mb = progress.total_bytes / 1e6
        return f"{progress.state}: {share:.0f} % of {size_mb:.0f} MB"
    return progress.state
