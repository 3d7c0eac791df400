"""The unit itself: frozen, strict, every field with the words for what it expects.

A field's `description` is used in messages ("expected …") as well as in the JSON Schema.
Strict means that nothing is converted: the number 3 is not the text "3", and `true` is not 1.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from sits.spec._reference import FORMS, ModelReference, parse_model_reference

MAX_INSTANCES = 10_000
_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


def _to_reference(value: object) -> object:
    return parse_model_reference(value) if isinstance(value, str) else value


def _to_prompt(value: object) -> object:
    return {"template": value} if isinstance(value, str) else value


ModelField = Annotated[
    InstanceOf[ModelReference],
    BeforeValidator(_to_reference),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Prompt(_Frozen):
    """What is said to the model around a caller's inputs. `template` and `file` exclude."""

    system: str | None = Field(None, description="text: the constant system message")
    template: str | None = Field(
        None, description="text: a Jinja2 template of the user's message over the inputs"
    )
    file: str | None = Field(
        None, min_length=1, description="text: the path of a template beside the unit's file"
    )

    @model_validator(mode="after")
    def _one_template(self) -> Self:
        if self.template is not None and self.file is not None:
            raise ValueError("has both `template` and `file`; expected one of them: remove one")
        return self


class Scale(_Frozen):
    """How many instances there may be. `trigger` is kept as text and not acted on yet."""

    min_instances: int = Field(
        0, ge=0, le=MAX_INSTANCES, description=f"a whole number from 0 to {MAX_INSTANCES}"
    )
    max_instances: int = Field(
        1, ge=1, le=MAX_INSTANCES, description=f"a whole number from 1 to {MAX_INSTANCES}"
    )
    trigger: str | None = Field(None, min_length=1, description="text, such as latency_p95 > 800ms")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_instances < self.min_instances:
            default = "" if "max_instances" in self.model_fields_set else " (the default)"
            raise ValueError(
                f"has min_instances {self.min_instances} over max_instances "
                f"{self.max_instances}{default}; expected min_instances <= max_instances: "
                f"raise max_instances or lower min_instances"
            )
        return self


class Unit(_Frozen):
    """An Intelligence Unit: a model, what is said to it, and how it scales.

    `adapter`, `trainer` and `scale.trigger` are kept and not acted on yet.
    """

    name: str = Field(
        pattern=_NAME,
        description="a DNS label: 1 to 63 lower-case letters, digits and '-', "
        "beginning and ending with a letter or digit",
    )
    model: ModelField = Field(description=FORMS)
    prompt: Annotated[Prompt, BeforeValidator(_to_prompt)] | None = Field(
        None, description="text (the template), or a mapping with system, template or file"
    )
    adapter: str | None = Field(
        None, min_length=1, description="text, such as dataflow://NAME@VERSION"
    )
    trainer: str | None = Field(
        None, min_length=1, description="text, such as torch.distributed.ddp"
    )
    scale: Scale = Field(
        Scale(), description="a mapping with min_instances, max_instances and trigger"
    )
    labels: Mapping[str, str] = Field({}, description="a mapping of text to text")


def expected_at(path: tuple[Any, ...]) -> str:
    """Return the words for what the field at `path` expects ("" where there are none)."""
    model: type[BaseModel] | None = Unit
    words = ""
    for part in path:
        if model is None:
            return "text" if path[0] == "labels" else words
        field = model.model_fields.get(str(part))
        if field is None:
            return words
        words = field.description or ""
        model = SECTIONS.get(str(part))
    return words


def field_names(path: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of the fields that the mapping at `path` may have."""
    model = SECTIONS.get(str(path[-1])) if path else Unit
    return tuple(model.model_fields) if model else ()


SECTIONS: Mapping[str, type[BaseModel]] = {"prompt": Prompt, "scale": Scale}
