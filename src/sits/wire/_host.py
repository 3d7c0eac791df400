"""Hosts, templates and instances, between control, the node and the base hosts.

Control knows an instance by a name that it chose and by `Instance`; process ids stay with
whoever started the process.
"""

from enum import StrEnum

import msgspec


class Tier(StrEnum):
    """How warm a start was: what was already there when the request arrived."""

    HOT = "hot"
    WARM = "warm"
    COOL = "cool"
    COLD = "cold"


class Instance(msgspec.Struct, frozen=True):
    """Something that answers requests of one unit.

    Attributes:
        endpoint: path of the unix socket on which it speaks `ToWorker`/`FromWorker`.
        tier: how warm its start was.
        capacity: how many requests it runs at once.
    """

    endpoint: str
    tier: Tier
    capacity: int


class HostKind(StrEnum):
    """What a base host serves."""

    MODEL = "model"
    REMOTE = "remote"


class RemoteEndpoint(msgspec.Struct, frozen=True):
    """An OpenAI-compatible endpoint elsewhere.

    Attributes:
        url: its base, such as https://models.example/v1.
        model: what the model is called there.
        secret: the name of the tenant's secret that holds its key; None: it needs none.
    """

    url: str
    model: str
    secret: str | None = None


class UnitPrompt(msgspec.Struct, frozen=True):
    """What is the same in every prompt of a unit, so that it is computed once and kept.

    Attributes:
        system: the unit's system prompt.
        template: its prompt template for `/iu/NAME/v1/query`.
        file: where both are instead, on their way to a template (`put_prompt_aside`).
    """

    system: str | None = None
    template: str | None = None
    file: str = ""


class UnitAdapter(msgspec.Struct, frozen=True):
    """A low-rank adapter of a unit, and which of its requests get it.

    Attributes:
        path: its file, as GGUF.
        digest: of the file's bytes: what is computed with it is found again by it.
        share_ppm: of the unit's requests, how many in a million get it. What is left of them when
            every adapter has its share goes to the model alone.
    """

    path: str
    digest: str
    share_ppm: int = 1_000_000


# control -> host


class OpenTemplate(msgspec.Struct, frozen=True, tag="open_template"):
    """Makes a tenant's template, so that its instances start warm. Idempotent."""

    tenant: str


class CloseTemplate(msgspec.Struct, frozen=True, tag="close_template"):
    """Ends a tenant's template, which has no instances; its next start is cool.

    One that has instances is kept, and announced again as ready.
    """

    tenant: str


class TeachPrefix(msgspec.Struct, frozen=True, tag="teach_prefix"):
    """Has a unit's constant prompt computed and kept, so that its instances start with it.

    It is computed with each of the unit's adapters: nothing of one is true of another. Idempotent;
    the tenant's template is made first, if there is none. Its file outlives both.
    """

    tenant: str
    unit: str
    prompt: UnitPrompt
    adapters: tuple[UnitAdapter, ...] = ()


class StartInstance(msgspec.Struct, frozen=True, tag="start_instance"):
    """Starts one instance for a tenant (and its template first, if there is none).

    `remotes` are the endpoints of a remote host's instance, in the order in which they are
    tried; a model's host has none. `prompt` is the unit's, whose prefix it starts with where
    that was taught, here or in an earlier life of the host. `itl_ms` is the unit's objective
    for the time between two tokens, of 99 of 100; None: it has none. `adapters` are the unit's;
    one that cannot be loaded ends the start.
    """

    instance: str
    tenant: str
    unit: str
    remotes: tuple[RemoteEndpoint, ...] = ()
    prompt: UnitPrompt = UnitPrompt()
    itl_ms: float | None = None
    adapters: tuple[UnitAdapter, ...] = ()


class StopInstance(msgspec.Struct, frozen=True, tag="stop_instance"):
    """Takes no new requests, lets running ones finish for `drain_s` seconds, then ends."""

    instance: str
    drain_s: float


# host -> control


class InstanceReady(msgspec.Struct, frozen=True, tag="instance_ready"):
    """The instance answers requests.

    `tenant` and `unit` are those of its `StartInstance`, so that a control that was started
    anew knows whose it is.
    """

    instance: str
    tenant: str
    unit: str
    value: Instance


class HostReady(msgspec.Struct, frozen=True, tag="host_ready"):
    """The model is loaded. Sent first on every connection, with all that there is already.

    So a control that was started anew takes over what runs, and does so in one step.

    Attributes:
        templates: tenants whose instances start warm.
        instances: those that answer requests.
    """

    templates: tuple[str, ...] = ()
    instances: tuple[InstanceReady, ...] = ()


class TemplateReady(msgspec.Struct, frozen=True, tag="template_ready"):
    """A tenant's instances now start warm."""

    tenant: str


class TemplateFailed(msgspec.Struct, frozen=True, tag="template_failed"):
    """A tenant's template could not be made or has ended."""

    tenant: str
    message: str


class PrefixTaught(msgspec.Struct, frozen=True, tag="prefix_taught"):
    """A `TeachPrefix` has come to its end: the template has the prefix, or never will.

    Attributes:
        tenant: whose.
        unit: as the order said.
        tokens: of the prefix; 0: the prompt has none that is worth keeping, or it failed.
    """

    tenant: str
    unit: str
    tokens: int


class TemplateClosed(msgspec.Struct, frozen=True, tag="template_closed"):
    """A tenant's template has ended because it was asked to."""

    tenant: str


class InstanceGone(msgspec.Struct, frozen=True, tag="instance_gone"):
    """The instance has ended (or never came up).

    `code` is `stopped` when it was asked to, else `start_failed` or `instance_lost`.
    """

    instance: str
    code: str
    message: str


class MemoryUse(msgspec.Struct, frozen=True, tag="memory_use"):
    """What a host's processes take now, in bytes of their own (shared pages counted once).

    Attributes:
        host: the base host alone.
        templates: for each tenant, its template and what was forked from it.
    """

    host: int
    templates: dict[str, int]


ToHost = OpenTemplate | CloseTemplate | TeachPrefix | StartInstance | StopInstance
FromHost = (
    HostReady
    | TemplateReady
    | TemplateFailed
    | TemplateClosed
    | PrefixTaught
    | InstanceReady
    | InstanceGone
    | MemoryUse
)


# control, CLI -> node


class StartHost(msgspec.Struct, frozen=True, tag="start_host"):
    """Starts a base host, by exec: of one model file, or of one tenant's endpoints elsewhere.

    Idempotent. `model_path` is empty for a remote host, `tenant` for a model's.
    """

    host: str
    model_path: str
    kind: HostKind = HostKind.MODEL
    tenant: str = ""


class StopHost(msgspec.Struct, frozen=True, tag="stop_host"):
    """Ends a base host and everything forked from it."""

    host: str


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    """Ends the whole platform, as Ctrl-C does."""


# node -> control


class HostUp(msgspec.Struct, frozen=True, tag="host_up"):
    """The host process runs and will listen on `endpoint` (a unix socket) when it has loaded."""

    host: str
    endpoint: str


class HostDown(msgspec.Struct, frozen=True, tag="host_down"):
    """The host process has ended; `message` says how, with the last lines that it wrote."""

    host: str
    message: str


ToNode = StartHost | StopHost | Shutdown
FromNode = HostUp | HostDown
