"""A tenant's remote host: orders from control come in, instances start and end, events go out.

Invariant, as for every host: a control that connects (again) is first sent `HostReady`, with
all that there is already.
"""

import contextlib
import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import httpx2

from sits.runtime.remote._caller import Caller
from sits.runtime.remote._http import Endpoint, Patience, make_client
from sits.runtime.remote._instance import RemoteInstance
from sits.runtime.remote._outbox import Outbox
from sits.runtime.remote._secrets import Secret, read_secret
from sits.wire import (
    Channel,
    FromHost,
    HostReady,
    Instance,
    InstanceGone,
    InstanceReady,
    OpenTemplate,
    StartInstance,
    StopInstance,
    TemplateFailed,
    TemplateReady,
    Tier,
    ToHost,
    WireError,
    serve,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostPlan:
    """What all instances of a remote host have in common.

    Attributes:
        tenant: whose they are.
        run_dir: where their sockets are.
        secrets_dir: of all tenants' secrets.
        environment: where the local tenant's secrets may be, too.
        capacity: requests that one instance runs at once.
        patience: how long an endpoint may take.
    """

    tenant: str
    run_dir: str
    secrets_dir: Path
    environment: Mapping[str, str]
    capacity: int
    patience: Patience


class RemoteHost:
    """Makes instances of one tenant's endpoints.

    Args:
        plan: see there.
        tasks: where instances run.
        tls: verifies the endpoints' certificates.
    """

    def __init__(self, plan: HostPlan, tasks: anyio.abc.TaskGroup, tls: ssl.SSLContext) -> None:
        self._plan = plan
        self._tasks = tasks
        self._tls = tls
        self._outboxes: set[Outbox] = set()
        self._template = False
        self._instances: dict[str, RemoteInstance] = {}
        self._ready: dict[str, InstanceReady] = {}

    async def listen(self, endpoint: str) -> None:
        """Take orders on a unix socket, until cancelled."""
        await serve(endpoint, ToHost, self._serve)

    async def _serve(self, channel: Channel[ToHost]) -> None:
        async with anyio.create_task_group() as tasks:
            outbox = Outbox(tasks.cancel_scope)
            templates = (self._plan.tenant,) if self._template else ()
            outbox.put_nowait(HostReady(templates, tuple(self._ready.values())))
            self._outboxes.add(outbox)
            tasks.start_soon(outbox.send_all, channel)
            try:
                async for order in channel:
                    self._obey(order)
            except WireError as error:
                _log.error("event=control_link_broken reason=%r", str(error))
            finally:
                self._outboxes.discard(outbox)
            tasks.cancel_scope.cancel()

    def _obey(self, order: ToHost) -> None:
        if isinstance(order, OpenTemplate):
            self._open_template(order.tenant)
        elif isinstance(order, StartInstance):
            self._start(order)
        elif isinstance(order, StopInstance):
            self._stop(order)

    def _open_template(self, tenant: str) -> None:
        if tenant != self._plan.tenant:
            self._tell(TemplateFailed(tenant, self._not_ours(tenant)))
            return
        self._template = True
        self._tell(TemplateReady(tenant))

    def _start(self, order: StartInstance) -> None:
        if order.instance in self._instances:
            return
        whose = f"tenant={order.tenant} unit={order.unit}"
        if order.tenant != self._plan.tenant:
            self._gone(order.instance, whose, "start_failed", self._not_ours(order.tenant))
            return
        if not order.remotes:
            message = "the unit names no endpoint; give `engine.endpoints` at least one"
            self._gone(order.instance, whose, "start_failed", message)
            return
        client = make_client(self._tls, self._plan.patience, self._plan.capacity)
        endpoints = [
            Endpoint(client, remote, partial(self._read_key, remote.secret))
            for remote in order.remotes
        ]
        caller = Caller(endpoints, self._plan.patience, whose)
        # An endpoint that cannot be asked, or all of them, is told to each request: to start
        # again and again would help nobody.
        caller.look_for_keys()
        path = os.path.join(self._plan.run_dir, f"{order.instance}.sock")
        instance = RemoteInstance(caller, path, self._plan.capacity)
        self._instances[order.instance] = instance
        tier = Tier.WARM if self._template else Tier.COOL
        value = Instance(path, tier, self._plan.capacity)
        ready = InstanceReady(order.instance, order.tenant, order.unit, value)
        self._tasks.start_soon(self._run, instance, ready, client)

    def _read_key(self, name: str | None) -> Secret | None:
        if name is None:
            return None
        return read_secret(
            name,
            tenant=self._plan.tenant,
            directory=self._plan.secrets_dir,
            environment=self._plan.environment,
        )

    async def _run(
        self, instance: RemoteInstance, ready: InstanceReady, client: httpx2.AsyncClient
    ) -> None:
        """Run an instance to its end, and tell of both."""
        name, path = ready.instance, ready.value.endpoint
        code, message = "stopped", "it was asked to stop"
        try:
            async with client, anyio.create_task_group() as tasks:
                try:
                    await tasks.start(instance.run)
                except OSError as error:
                    code, message = "start_failed", f"{path} cannot be listened on: {error}"
                else:
                    self._came_up(ready)
                finally:
                    instance.started.set()
        finally:
            self._ready.pop(name, None)
            del self._instances[name]
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._gone(name, instance.whose, code, message)

    def _came_up(self, ready: InstanceReady) -> None:
        if not self._template:
            self._open_template(ready.tenant)
        self._ready[ready.instance] = ready
        self._tell(ready)

    def _stop(self, order: StopInstance) -> None:
        # A control that comes now is not told of it: it takes nothing new any more.
        self._ready.pop(order.instance, None)
        instance = self._instances.get(order.instance)
        if instance is None:
            whose = f"tenant={self._plan.tenant}"
            self._gone(order.instance, whose, "stopped", "it was not there")
        else:
            self._tasks.start_soon(instance.drain, order.drain_s)

    def _gone(self, instance: str, whose: str, code: str, message: str) -> None:
        line = "event=instance_gone %s instance=%s code=%s reason=%r"
        _log.info(line, whose, instance, code, message)
        self._tell(InstanceGone(instance, code, message))

    def _tell(self, event: FromHost) -> None:
        for outbox in list(self._outboxes):
            outbox.put_nowait(event)

    def _not_ours(self, tenant: str) -> str:
        return f"this host serves the tenant {self._plan.tenant!r}, not {tenant!r}"
