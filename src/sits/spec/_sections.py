"""The sections of a unit: what its fields are grouped into, frozen and strict.

A field's `title` says what it is for, its `description` what is expected there: messages
("expected …"), the JSON Schema and the reference of units are all made of these words. Strict
means that nothing is converted: the number 3 is not the text "3", and `true` is not 1.
"""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sits.spec._adapter import ADAPTER_FORMS
from sits.spec._endpoint_url import URL_PATTERN, URL_WORDS, check_base, hide_keys
from sits.spec._fields import (
    DNS_LABEL,
    DNS_LABEL_WORDS,
    AdapterField,
    OneOrMore,
    ShareField,
    ShortForm,
    TimeField,
    TriggerField,
)
from sits.spec._keys import HOW_TO_GIVE, looks_like_key
from sits.spec._number import Kind
from sits.spec._quantity import Share, Time

MAX_INSTANCES = 10_000


def kind_words(kind: Kind) -> str:
    """Return what a field that takes such a quantity expects."""
    return f"{kind.noun} ({kind.form})"


TIME = kind_words(Time.KIND)
SHARE = kind_words(Share.KIND)


_URL = {"type": "string", "pattern": URL_PATTERN}


class Section(BaseModel):
    """What all sections have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Prompt(Section):
    """What is said to the model around a caller's inputs. `template` and `file` exclude."""

    system: str | None = Field(
        None,
        title="The constant system message; a caller's own comes after it",
        description="text",
        examples=["Answer briefly and in plain English."],
    )
    template: str | None = Field(
        None,
        title="The user's message, a Jinja2 template over the call's inputs",
        description="text",
        examples=["{{ question }}"],
    )
    file: str | None = Field(
        None,
        min_length=1,
        title="A file that holds the template, beside the unit's file",
        description="text: a relative path",
        examples=["prompts/answer.txt"],
    )

    @model_validator(mode="after")
    def _one_template(self) -> Self:
        if self.template is not None and self.file is not None:
            raise ValueError("has both `template` and `file`; expected one of them: remove one")
        return self


class EngineKind(StrEnum):
    """What runs a unit's model."""

    LLAMACPP = "llamacpp"
    OPENAI = "openai"


class Serves(StrEnum):
    """What a model that is elsewhere makes of a request."""

    CHAT = "chat"
    EMBEDDING = "embedding"


class Endpoint(Section):
    """An OpenAI-compatible endpoint elsewhere."""

    url: str = Field(
        pattern=URL_PATTERN,
        max_length=2000,
        title="The endpoint's base URL",
        description=URL_WORDS,
        examples=["https://models.example/v1"],
    )
    secret: str | None = Field(
        None,
        pattern=DNS_LABEL,
        title="The name of the tenant's secret that holds the endpoint's key",
        description=DNS_LABEL_WORDS,
        examples=["models-key"],
    )
    model: str | None = Field(
        None,
        min_length=1,
        title="What the model is called there, if not as in `model`",
        description="text",
        examples=["gpt-4o"],
    )

    _hide_keys = field_validator("url", mode="before")(hide_keys)
    _check_base = field_validator("url")(check_base)

    @field_validator("secret", mode="before")
    @classmethod
    def _is_no_key(cls, value: object) -> object:
        """Refuse what may be the key itself, before a message could quote it."""
        if not isinstance(value, str) or not looks_like_key(value):
            return value
        raise ValueError(
            f"looks like a key itself, and is not shown; expected the name of one: {HOW_TO_GIVE}"
        )


class EngineSpec(Section):
    """What runs the model; `endpoints` are tried in their order."""

    kind: EngineKind = Field(
        EngineKind.LLAMACPP,
        strict=False,
        title="What runs the model: here, or at endpoints elsewhere",
        description="llamacpp or openai",
        examples=["openai"],
    )
    endpoints: Annotated[tuple[Annotated[Endpoint, ShortForm(_URL)], ...], OneOrMore()] = Field(
        (),
        strict=False,
        max_length=32,
        title="Where the model is served, in the order in which they are tried",
        description="a list of mappings with url, secret and model, or of URLs",
        examples=[["https://models.example/v1"]],
    )
    serves: Serves | None = Field(
        None,
        strict=False,
        title="What the model elsewhere makes of a request (unset: chat); of a model here, its "
        "file says that",
        description="chat or embedding",
        examples=["embedding"],
    )

    @model_validator(mode="after")
    def _has_its_endpoints(self) -> Self:
        if self.kind is EngineKind.OPENAI and not self.endpoints:
            raise ValueError(
                "is openai without endpoints; expected at least one: write engine: "
                "{kind: openai, endpoints: [https://models.example/v1]}"
            )
        if self.kind is EngineKind.LLAMACPP and self.endpoints:
            raise ValueError(
                "is llamacpp with endpoints; expected none: write kind: openai, or remove them"
            )
        if self.kind is EngineKind.LLAMACPP and self.serves:
            raise ValueError(
                f"is llamacpp and serves {self.serves}; a model's file says what it serves: "
                "remove serves"
            )
        return self


class LoraAdapter(Section):
    """A LoRA adapter, and how much of the unit's traffic it gets."""

    adapter: AdapterField = Field(
        title="Where the adapter comes from",
        description=ADAPTER_FORMS,
        examples=["adapter://support-tone@v2"],
    )
    weight: ShareField | None = Field(
        None,
        title="The share of the traffic that it gets; what is left goes to the model alone",
        description=SHARE,
        examples=["25%"],
    )


class Scale(Section):
    """How many instances there are, and when."""

    min_instances: int = Field(
        0,
        ge=0,
        le=MAX_INSTANCES,
        title="Kept also without requests; 0 goes to zero and comes back on a request",
        description=f"a whole number from 0 to {MAX_INSTANCES}",
        examples=[1],
    )
    max_instances: int = Field(
        1,
        ge=1,
        le=MAX_INSTANCES,
        title="Never passed",
        description=f"a whole number from 1 to {MAX_INSTANCES}",
        examples=[4],
    )
    idle: TimeField | None = Field(
        None,
        title="How long without a request until only `min_instances` are left "
        "(unset: the setting `idle_s`)",
        description=TIME,
        examples=["5m"],
    )
    cool_after: TimeField | None = Field(
        None,
        title="How long without a request until also the template goes, and the unit is cool",
        description=TIME,
        examples=["1h"],
    )
    trigger: TriggerField | None = Field(
        None,
        title="When to add instances beyond what is in flight",
        description="a trigger, such as latency_p95 > 800ms || gpu_util > 85% for 60s",
        examples=["latency_p95 > 800ms || gpu_util > 85% for 60s"],
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_instances < self.min_instances:
            default = "" if "max_instances" in self.model_fields_set else " (the default)"
            raise ValueError(
                f"has min_instances {self.min_instances} over max_instances "
                f"{self.max_instances}{default}; expected min_instances <= max_instances: "
                f"raise max_instances or lower min_instances"
            )
        if self.idle and self.cool_after and self.cool_after < self.idle:
            raise ValueError(
                f"has cool_after {self.cool_after} under idle {self.idle}; expected idle <= "
                "cool_after: raise cool_after or lower idle"
            )
        return self
