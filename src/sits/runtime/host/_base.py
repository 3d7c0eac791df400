"""Instances by fork: the base host forks a template for each tenant, and that forks workers.

Invariant: the base host never sees a prompt, so no template inherits another tenant's tokens.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sits._errors import SitsError
from sits.runtime.engine import Model, PoolShape
from sits.runtime.host._child import Child
from sits.runtime.host._memory import own_bytes, tree_bytes
from sits.runtime.host._messages import FromTemplate, StartWorker
from sits.runtime.host._places import Places
from sits.runtime.host._reactor import Reactor
from sits.runtime.host._template import run_template
from sits.runtime.host._watch import is_stopped
from sits.wire import (
    FromHost,
    InstanceGone,
    InstanceReady,
    MemoryUse,
    PrefixTaught,
    StartInstance,
    StopInstance,
    TeachPrefix,
    TemplateClosed,
    TemplateFailed,
    TemplateReady,
    Tier,
)

_TEMPLATE_S = 0.5
_MEASURE_S = 10.0
_LOOK_S = 2.0
_log = logging.getLogger(__name__)


@dataclass
class _Template:
    child: Child[FromTemplate]
    ready: bool = False
    failure: str = ""
    instances: set[str] = field(default_factory=set)


class ForkHost:
    """Makes instances of one model by fork. See `Instances` for the interface.

    Args:
        announce: is told what happens, as `HostServer.announce`.
        places: where workers' sockets, and prefixes, are.
    """

    def __init__(
        self,
        reactor: Reactor,
        model: Model,
        shape: PoolShape,
        places: Places,
        announce: Callable[[FromHost], None],
    ) -> None:
        self._reactor = reactor
        self._model = model
        self._shape = shape
        self._places = places
        self._announce = announce
        self._templates: dict[str, _Template] = {}
        self._tenants: dict[str, str] = {}
        self._measure_at_s = 0.0
        self._look_at_s = 0.0
        self._stopped: set[str] = set()

    def open_template(self, tenant: str) -> None:
        """See `Instances.open_template`."""
        if tenant in self._templates:
            if self._templates[tenant].ready:
                self._announce(TemplateReady(tenant))
            return

        def body(link: socket.socket) -> None:
            run_template(link, self._model, self._shape, self._places, tenant)

        try:
            child = Child[FromTemplate](
                self._reactor,
                FromTemplate,
                body,
                on_message=lambda message: self._from_template(tenant, message),
                on_end=lambda how: self._template_ended(tenant, how),
            )
        except (SitsError, OSError) as error:
            self._announce(TemplateFailed(tenant, f"no process for the template: {error}"))
            return
        self._templates[tenant] = _Template(child)

    def close_template(self, tenant: str) -> None:
        """See `Instances.close_template`."""
        template = self._templates.get(tenant)
        if template is None:
            self._announce(TemplateClosed(tenant))
        elif template.instances:
            self._announce(TemplateReady(tenant))
        else:
            del self._templates[tenant]
            template.child.end(_TEMPLATE_S)
            self._announce(TemplateClosed(tenant))

    def teach_prefix(self, order: TeachPrefix) -> None:
        """See `Instances.teach_prefix`."""
        if order.tenant not in self._templates:
            self.open_template(order.tenant)
        template = self._templates.get(order.tenant)
        if template is not None:
            template.child.send(order)

    def start_instance(self, order: StartInstance) -> None:
        """See `Instances.start_instance`."""
        if order.instance in self._tenants:
            return
        template = self._templates.get(order.tenant)
        tier = Tier.WARM if template and template.ready else Tier.COOL
        if template is None:
            self.open_template(order.tenant)
            template = self._templates.get(order.tenant)
            if template is None:
                self._gone(order.instance, "start_failed", "its template could not be made")
                return
        self._tenants[order.instance] = order.tenant
        template.instances.add(order.instance)
        template.child.send(StartWorker(order, tier))

    def stop_instance(self, order: StopInstance) -> None:
        """See `Instances.stop_instance`."""
        tenant = self._tenants.get(order.instance)
        if tenant is None:
            self._gone(order.instance, "stopped", "it was not there")
        else:
            self._templates[tenant].child.send(order)

    def wait_s(self) -> float | None:
        """See `Instances.wait_s`."""
        if not self._templates:
            return None
        return max(0.0, min(self._measure_at_s, self._look_at_s) - time.monotonic())

    def step(self) -> None:
        """See `Instances.step`. Everything happens in the children, but that they are watched."""
        now_s = time.monotonic()
        if self._templates and now_s >= self._look_at_s:
            self._look_at_s = now_s + _LOOK_S
            self._look_after_templates()
        if self._templates and now_s >= self._measure_at_s:
            self._measure_at_s = now_s + _MEASURE_S
            templates = {
                tenant: tree_bytes(template.child.pid)
                for tenant, template in self._templates.items()
            }
            self._announce(MemoryUse(own_bytes(os.getpid()), templates))

    def _look_after_templates(self) -> None:
        """Kill templates that the kernel has stopped for two looks: they can start nothing."""
        former, self._stopped = self._stopped, set()
        for tenant, template in self._templates.items():
            if not is_stopped(template.child.pid):
                continue
            self._stopped.add(tenant)
            if tenant in former:
                template.failure = f"it was stopped for {_LOOK_S:g} s, and killed"
                template.child.kill()

    def close(self) -> None:
        """See `Instances.close`. Each template ends and collects its own workers."""
        for template in self._templates.values():
            template.child.end(_TEMPLATE_S)

    def _from_template(self, tenant: str, message: FromTemplate) -> None:
        template = self._templates[tenant]
        if isinstance(message, TemplateReady):
            template.ready = True
            self._measure_at_s = 0.0
            self._announce(message)
        elif isinstance(message, TemplateFailed):
            template.failure = message.message
        elif isinstance(message, InstanceReady | PrefixTaught):
            self._announce(message)
        else:
            template.instances.discard(message.instance)
            self._gone(message.instance, message.code, message.message)

    def _template_ended(self, tenant: str, how: str) -> None:
        template = self._templates.pop(tenant)
        reason = template.failure or how
        _log.warning("template of tenant %s ended: %s", tenant, reason)
        for instance in template.instances:
            self._gone(instance, "instance_lost", f"its template ended: {reason}")
        self._announce(TemplateFailed(tenant, f"the template ended: {reason}"))

    def _gone(self, instance: str, code: str, message: str) -> None:
        self._tenants.pop(instance, None)
        self._announce(InstanceGone(instance, code, message))
