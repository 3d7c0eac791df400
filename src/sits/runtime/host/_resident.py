"""Instances without a fork: one process, one model, logical instances with a pool each.

For places where a fork cannot be had (CUDA contexts, macOS), and for tests. Warm means that the
weights are in this process's memory.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sits.runtime.engine import EngineError, Model, PoolShape
from sits.runtime.host._adapters import Traffic
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._runner import Runner, make_runner, monotonic_us
from sits.runtime.host._worker import WorkerServer
from sits.wire import (
    FromHost,
    Instance,
    InstanceGone,
    InstanceReady,
    PrefixTaught,
    StartInstance,
    StopInstance,
    TeachPrefix,
    TemplateClosed,
    TemplateReady,
    Tier,
    take_prompt_in,
)


@dataclass(frozen=True)
class _Resident:
    server: WorkerServer
    runner: Runner


class ResidentHost:
    """Makes instances within this process. See `Instances` for the interface.

    Args:
        announce: is told what happens, as `HostServer.announce`.
        run_dir: where instances' sockets are.
        now_us: a monotonic clock, in microseconds.
    """

    def __init__(
        self,
        reactor: Reactor,
        model: Model,
        shape: PoolShape,
        run_dir: str,
        announce: Callable[[FromHost], None],
        *,
        now_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self._reactor = reactor
        self._model = model
        self._shape = shape
        self._run_dir = run_dir
        self._announce = announce
        self._now_us = now_us
        self._tenants: set[str] = set()
        self._residents: dict[str, _Resident] = {}

    def open_template(self, tenant: str) -> None:
        """See `Instances.open_template`. The weights are here: it is always ready."""
        self._tenants.add(tenant)
        self._announce(TemplateReady(tenant))

    def close_template(self, tenant: str) -> None:
        """See `Instances.close_template`. The weights stay: there is nothing else to close."""
        self._tenants.discard(tenant)
        self._announce(TemplateClosed(tenant))

    def teach_prefix(self, order: TeachPrefix) -> None:
        """See `Instances.teach_prefix`. Each instance's pool learns from its first request."""
        take_prompt_in(order.prompt)
        self._announce(PrefixTaught(order.tenant, order.unit, 0))

    def start_instance(self, order: StartInstance) -> None:
        """See `Instances.start_instance`."""
        take_prompt_in(order.prompt)
        if order.instance in self._residents:
            return
        tier = Tier.WARM if order.tenant in self._tenants else Tier.COOL
        endpoint = f"{self._run_dir}/{order.instance}.sock"
        try:
            runner = make_runner(self._model, self._shape)
        except EngineError as error:
            self._announce(InstanceGone(order.instance, "start_failed", str(error)))
            return
        traffic = Traffic(order.adapters)
        batcher = runner.make_batcher(self._now_us)
        try:
            for adapters in traffic.sets:
                runner.load_adapters(adapters)
            server = WorkerServer(self._reactor, batcher, self._now_us)
            server.open(order.instance, order.unit, endpoint, traffic.choose)
        except (EngineError, OSError) as error:
            runner.shutdown()
            where = f"{endpoint} cannot be listened on: " if isinstance(error, OSError) else ""
            self._announce(InstanceGone(order.instance, "start_failed", f"{where}{error}"))
            return
        self._residents[order.instance] = _Resident(server, runner)
        if tier is Tier.COOL:
            self.open_template(order.tenant)
        value = Instance(endpoint, tier, runner.capacity)
        self._announce(InstanceReady(order.instance, order.tenant, order.unit, value))

    def stop_instance(self, order: StopInstance) -> None:
        """See `Instances.stop_instance`."""
        resident = self._residents.get(order.instance)
        if resident is None:
            self._announce(InstanceGone(order.instance, "stopped", "it was not there"))
        else:
            resident.server.drain(order.instance, order.drain_s)

    def wait_s(self) -> float | None:
        """See `Instances.wait_s`."""
        waits = (resident.server.wait_s() for resident in self._residents.values())
        return min((wait for wait in waits if wait is not None), default=None)

    def step(self) -> None:
        """See `Instances.step`. One engine step of each instance that has work."""
        for name, resident in list(self._residents.items()):
            resident.server.step()
            if resident.server.stopped:
                del self._residents[name]
                resident.runner.shutdown()
                self._announce(InstanceGone(name, "stopped", "it was asked to stop"))

    def close(self) -> None:
        """See `Instances.close`."""
        for resident in self._residents.values():
            resident.server.close()
            resident.runner.shutdown()
