"""Types of fields: how a file's value becomes a typed one, and what JSON Schema says of it.

Each converts text (or a plain number) into a frozen value when a unit is read, back into text
when it is written, and says to editors what that text looks like.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    GetJsonSchemaHandler,
    InstanceOf,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sits.spec._adapter import AdapterReference, parse_adapter_reference
from sits.spec._number import NUMBER, Kind, QuantityError
from sits.spec._quantity import Count, Money, Rate, Share, Size, Time
from sits.spec._reference import ModelReference, parse_model_reference
from sits.spec._trigger import Trigger
from sits.spec._trigger_parse import MAX_TRIGGER_CHARS, parse_trigger
from sits.spec._words import given

DNS_LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
DNS_LABEL_WORDS = (
    "a DNS label: 1 to 63 lower-case letters, digits and '-', "
    "beginning and ending with a letter or digit"
)
_MILLION = 10**6
_SLICES_MOST = 1024


@dataclass(frozen=True, eq=False)  # by identity: pydantic needs a hash, and schemas have none
class ShortForm:
    """Says in JSON Schema that a field may also be written shorter; `read` does the reading."""

    schema: dict[str, Any]

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of either form."""
        return {"anyOf": [self.schema, handler(core_schema)]}


class OneOrMore:
    """Says in JSON Schema that a list of one may be written as its one item."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema of either form."""
        many = handler(core_schema)
        return {"anyOf": [many["items"], many]}


def quantity_schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema of the text of a quantity that needs a unit."""
    units = "|".join(re.escape(unit) for unit in kind.units)
    return {"type": "string", "pattern": f"^{NUMBER}({units})$"}


def _parsed(parse: Callable[[str], object]) -> Callable[[object], object]:
    """Return a validator that parses text, and tells what was given when that fails."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except ValueError as error:
            raise ValueError(f"{given(value)} {error}") from error

    return read


def _to_trigger(value: object) -> object:
    return parse_trigger(value) if isinstance(value, str) else value


def _to_whole(value: object) -> int:
    count = Count.read(value)
    if count.atoms % _MILLION:
        raise QuantityError(f"is {given(value)}; expected a whole number: round it")
    return count.atoms // _MILLION


def _to_slices(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_whole = 1 <= value <= _SLICES_MOST and value % 1 == 0
        if is_whole or value in {0.25, 0.5, 0.75}:
            return float(value)
    raise QuantityError(
        f"is {given(value)}; expected 0.25, 0.5, 0.75 or a whole number up to {_SLICES_MOST}"
    )


ADAPTER_SCHEMA = {
    "type": "string",
    "pattern": r"^(adapter://[a-z0-9][a-z0-9.-]{0,95}(@[A-Za-z0-9][A-Za-z0-9_.-]{0,63})?|"
    r"file:///.+|huggingface://[A-Za-z0-9]\S*)$",
}
ModelField = Annotated[
    InstanceOf[ModelReference],
    BeforeValidator(_parsed(parse_model_reference)),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(builtin://[a-z0-9][a-z0-9.-]{0,95}|file:///.+|"
            r"(huggingface|openai)://[A-Za-z0-9]\S*)$",
        }
    ),
]
AdapterField = Annotated[
    InstanceOf[AdapterReference],
    BeforeValidator(_parsed(parse_adapter_reference)),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(ADAPTER_SCHEMA),
]
TriggerField = Annotated[
    InstanceOf[Trigger],
    BeforeValidator(_to_trigger),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_TRIGGER_CHARS}),
]
TimeField = Annotated[
    InstanceOf[Time],
    BeforeValidator(Time.read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(quantity_schema(Time.KIND)),
]
SizeField = Annotated[
    InstanceOf[Size],
    BeforeValidator(Size.read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(quantity_schema(Size.KIND)),
]
ShareField = Annotated[
    InstanceOf[Share],
    BeforeValidator(Share.read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": rf"^{NUMBER}%?$"},
                {"type": "number", "minimum": 0, "maximum": 1},
            ]
        }
    ),
]
RateField = Annotated[
    InstanceOf[Rate],
    BeforeValidator(Rate.read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^{NUMBER}(/s|/m|/h|/d)?$"},
                {"type": "number", "minimum": 0},
            ]
        }
    ),
]
MoneyField = Annotated[
    InstanceOf[Money],
    BeforeValidator(Money.read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{NUMBER}[A-Z]{{3}}$"}),
]
WholeField = Annotated[
    int,
    BeforeValidator(_to_whole),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": f"^{NUMBER}[kMGTPE]?$"},
            ]
        }
    ),
]
SlicesField = Annotated[
    float,
    BeforeValidator(_to_slices),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [0.25, 0.5, 0.75]},
                {"type": "integer", "minimum": 1, "maximum": _SLICES_MOST},
            ]
        }
    ),
]
