"""The unit itself: frozen, strict, and what its fields mean to each other.

A unit says each thing in one way, however its file said it: short forms are spelled out, and a
section that says nothing is none. So equal units have equal canonical JSON.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
)

from sits.spec._adapter import ADAPTER_FORMS
from sits.spec._fields import (
    ADAPTER_SCHEMA,
    DNS_LABEL,
    DNS_LABEL_WORDS,
    ModelField,
    OneOrMore,
    ShortForm,
    quantity_schema,
)
from sits.spec._limits import Accelerator, Budget, Hardware, Session, Slo
from sits.spec._quantity import Share, Time
from sits.spec._reference import FORMS, ModelScheme
from sits.spec._sections import (
    Endpoint,
    EngineKind,
    EngineSpec,
    LoraAdapter,
    Prompt,
    Scale,
    Section,
)

_S = TypeVar("_S", bound=Section)
_WHOLE_SHARE = Share.parse("100%")


def _short(field: str) -> BeforeValidator:
    """Return what takes a text for the mapping that has it as its one field."""
    return BeforeValidator(lambda value: {field: value} if isinstance(value, str) else value)


def _said(section: _S) -> _S | None:
    return None if section == type(section)() else section


def _spelled_out(slo: Slo) -> Slo:
    names = ("ttft", "itl", "latency")
    short = {name: time for name in names if (time := getattr(slo, name)) is not None}
    return slo.model_copy(
        update={
            **dict.fromkeys(short),
            **{f"{name}_p95": time for name, time in short.items()},
        }
    )


def _to_list(value: object) -> object:
    return [value] if isinstance(value, str | dict) else value


def _to_adapters(value: object) -> object:
    items = _to_list(value)
    if not isinstance(items, list):
        return items
    return [{"adapter": item} if isinstance(item, str) else item for item in items]


def _to_engine(value: object) -> object:
    value = {"kind": value} if isinstance(value, str) else value
    if not isinstance(value, dict) or "endpoints" not in value:
        return value
    items = _to_list(value["endpoints"])
    if isinstance(items, list):
        items = [{"url": item} if isinstance(item, str) else item for item in items]
    return {**value, "endpoints": items}


def _weighted(adapters: tuple[LoraAdapter, ...]) -> tuple[LoraAdapter, ...]:
    if len(adapters) == 1 and adapters[0].weight is None:
        return (adapters[0].model_copy(update={"weight": _WHOLE_SHARE}),)
    for one in adapters:
        if one.weight is None:
            raise ValueError(
                f"has {len(adapters)} adapters, and {one.adapter} without a weight; expected a "
                "weight for each, such as 25%"
            )
    total = Share(sum(one.weight.atoms for one in adapters if one.weight))
    if total > _WHOLE_SHARE:
        raise ValueError(
            f"has weights of {total} together; expected at most 100%: lower them (what is left "
            "goes to the model alone)"
        )
    names = sorted(str(one.adapter) for one in adapters)
    for name, following in pairwise(names):
        if name == following:
            raise ValueError(f"has {name} twice; remove one")
    return adapters


def _one_of_a_period(budgets: tuple[Budget, ...]) -> tuple[Budget, ...]:
    periods = sorted(budget.per for budget in budgets)
    for period, following in pairwise(periods):
        if period == following:
            raise ValueError(f"has two budgets per {period}; expected one: put them together")
    return budgets


class Unit(Section):
    """An Intelligence Unit: a model, what is said to it, how it scales, and what it may use."""

    name: str = Field(
        pattern=DNS_LABEL,
        title="The unit's name, and the model's name in OpenAI's API",
        description=DNS_LABEL_WORDS,
        examples=["chat"],
    )
    tenant: str | None = Field(
        None,
        pattern=DNS_LABEL,
        title="Whose the unit is (unset: the tenant of the key that deploys it)",
        description=DNS_LABEL_WORDS,
        examples=["team-a"],
    )
    model: ModelField = Field(
        title="What answers: the model, by reference",
        description=FORMS,
        examples=["builtin://smollm2-135m-instruct"],
    )
    engine: Annotated[EngineSpec, BeforeValidator(_to_engine), ShortForm({"const": "llamacpp"})] = (
        Field(
            EngineSpec(),
            validate_default=True,
            title="What runs the model; a text is its `kind`",
            description="llamacpp, or a mapping with kind and endpoints",
            examples=[{"kind": "openai", "endpoints": ["https://models.example/v1"]}],
        )
    )
    lora: Annotated[
        tuple[Annotated[LoraAdapter, ShortForm(ADAPTER_SCHEMA)], ...],
        BeforeValidator(_to_adapters),
        AfterValidator(_weighted),
        OneOrMore(),
    ] = Field(
        (),
        strict=False,
        max_length=32,
        title="Adapters over the model; a text or a mapping is a list of one",
        description=f"a list of mappings with adapter and weight, or {ADAPTER_FORMS}",
        examples=[[{"adapter": "adapter://support-tone@v2", "weight": "25%"}]],
    )
    prompt: (
        Annotated[Prompt, _short("template"), AfterValidator(_said), ShortForm({"type": "string"})]
        | None
    ) = Field(
        None,
        title="What is said to the model; a text is its `template`",
        description="text (the template), or a mapping with system, template or file",
        examples=["{{ question }}"],
    )
    adapter: str | None = Field(
        None,
        pattern=r"^dataflow://[A-Za-z0-9][A-Za-z0-9._-]{0,95}(@[A-Za-z0-9][A-Za-z0-9._-]{0,63})?$",
        title="The data adapter that feeds the unit's context",
        description="dataflow://NAME[@VERSION]",
        examples=["dataflow://clickstream-preprocessor@v3"],
    )
    trainer: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63}){0,7}$",
        title="What fine-tunes the model",
        description="a dotted name, such as torch.distributed.ddp",
        examples=["torch.distributed.ddp"],
    )
    scale: Scale = Field(
        Scale(),
        title="How many instances there are, and when",
        description="a mapping with min_instances, max_instances, idle, cool_after and trigger",
        examples=[{"min_instances": 0, "max_instances": 4}],
    )
    slo: Annotated[Slo, AfterValidator(_spelled_out), AfterValidator(_said)] | None = Field(
        None,
        title="What the unit owes its callers",
        description="a mapping such as {ttft: 500ms, latency_p99: 3s, availability: 99.9%}",
        examples=[{"ttft": "500ms", "latency_p99": "3s"}],
    )
    budget: Annotated[
        tuple[Budget, ...],
        BeforeValidator(_to_list),
        AfterValidator(_one_of_a_period),
        OneOrMore(),
    ] = Field(
        (),
        strict=False,
        max_length=5,
        title="What the unit may use; a mapping is a list of one, a list has one of each period",
        description="a mapping with tokens, flops, memory_hours or money, per and soft, or a list",
        examples=[{"money": "20USD", "per": "month", "soft": "80%"}],
    )
    session: (
        Annotated[
            Session, _short("ttl"), AfterValidator(_said), ShortForm(quantity_schema(Time.KIND))
        ]
        | None
    ) = Field(
        None,
        title="What is kept of conversations; a text is its `ttl`",
        description="a time (the ttl), or a mapping with ttl and max_history_tokens",
        examples=["30m"],
    )
    hardware: (
        Annotated[
            Hardware,
            _short("accelerator"),
            AfterValidator(_said),
            ShortForm({"enum": list(map(str, Accelerator))}),
        ]
        | None
    ) = Field(
        None,
        title="What each instance needs; a text is its `accelerator`",
        description="an accelerator, or a mapping with accelerator, count, memory and threads",
        examples=["cuda"],
    )
    region: str | None = Field(
        None,
        pattern=DNS_LABEL,
        title="Where it is to run",
        description=DNS_LABEL_WORDS,
        examples=["us-west-2"],
    )
    labels: Mapping[str, str] = Field(
        {},
        title="Yours; nothing acts on them",
        description="a mapping of text to text",
        examples=[{"purpose": "demo"}],
    )

    @field_validator("engine")
    @classmethod
    def _fits_the_model(cls, engine: EngineSpec, info: ValidationInfo) -> EngineSpec:
        model = info.data.get("model")
        if model is None:
            return engine
        elsewhere = model.scheme is ModelScheme.OPENAI
        if elsewhere and engine.kind is not EngineKind.OPENAI:
            raise ValueError(
                f"is llamacpp, and {model} is a model at endpoints elsewhere; expected engine: "
                "{kind: openai, endpoints: [https://models.example/v1]}, or a model of another form"
            )
        if engine.kind is EngineKind.OPENAI and not elsewhere:
            raise ValueError(
                f"is openai, and {model} is no model at endpoints elsewhere; expected model: "
                "openai://NAME, or kind: llamacpp"
            )
        return engine


SECTIONS: Mapping[str, type[BaseModel]] = {
    "prompt": Prompt,
    "engine": EngineSpec,
    "engine.endpoints": Endpoint,
    "lora": LoraAdapter,
    "scale": Scale,
    "slo": Slo,
    "budget": Budget,
    "session": Session,
    "hardware": Hardware,
}


def section_at(path: tuple[Any, ...]) -> type[BaseModel] | None:
    """Return what the mapping at `path` is; None where there is none or its keys are free."""
    names = [str(part) for part in path if not isinstance(part, int)]
    return SECTIONS.get(".".join(names)) if names else Unit


def field_names(path: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of the fields that the mapping at `path` may have."""
    section = section_at(path)
    return tuple(section.model_fields) if section else ()


def expected_at(path: tuple[Any, ...]) -> str:
    """Return the words for what the field at `path` expects ("" where there are none)."""
    if path[:1] == ("labels",) and len(path) > 1:
        return "text"
    while path and isinstance(path[-1], int):
        path = path[:-1]
    section = section_at(path[:-1]) if path else None
    field = section.model_fields.get(str(path[-1])) if section else None
    return (field.description or "") if field else ""
