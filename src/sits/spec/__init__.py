"""What a unit is, as data: its file read strictly, its references, its canonical form.

    text --_yaml--> plain values with lines --_cluster--> the unit's fields, of either form
         --_repair--> known slips mended, each with a note
         --_unit--> `Unit` (frozen) --_canonical--> JSON and revision id
         `-_explain--> or a `SpecError`: file, line, what was given, what was expected

`load_unit` walks that line for a YAML file, `load_unit_json` for a JSON document. A unit is made
of sections (`_sections`, `_limits`), and these of fields (`_fields`) whose values are typed:

    _quantity   `Time`, `Size`, `Share`, `Rate`, `Count`, `Money` (numbers with units: `_number`)
    _trigger    conditions on metrics (`_metrics`), read by a grammar (`_trigger_parse`)
    _reference, _adapter   where a model or an adapter comes from

What messages need beside the file is in `_places` (which line a field is on; also for what is
refused later, by the platform), `Surroundings` (which models there are) and `_field_hints`.

`_schema` says what loads as JSON Schema, `_idle` which fields this version does not act on,
`cluster_form` writes a unit as a Kubernetes object. All of it is pure: a prompt that lies in a
file of its own is put in by `inline_prompt_file`, which is given the function that reads.
Nothing here knows a clock, a file system or a network.
"""

from sits.spec._adapter import AdapterReference, AdapterScheme, parse_adapter_reference
from sits.spec._canonical import canonical_json, revision_id, unit_from_json
from sits.spec._cluster import API_VERSION, KIND, cluster_form
from sits.spec._errors import SpecError
from sits.spec._fields import DNS_LABEL
from sits.spec._idle import IdleField, idle_fields, is_acted_on, served_adapters
from sits.spec._limits import Accelerator, Budget, Hardware, Period, Session, Slo
from sits.spec._load import MAX_UNIT_BYTES, Loaded, load_unit, load_unit_bytes, load_unit_json
from sits.spec._metrics import METRICS, Metric, find_metric
from sits.spec._number import QuantityError
from sits.spec._places import Places
from sits.spec._prompt_file import inline_prompt_file
from sits.spec._quantity import Count, Money, Quantity, Rate, Share, Size, Time
from sits.spec._reference import ModelReference, ModelScheme, parse_model_reference
from sits.spec._reference_words import Surroundings
from sits.spec._schema import SCHEMA_ID, unit_schema
from sits.spec._sections import (
    Endpoint,
    EngineKind,
    EngineSpec,
    LoraAdapter,
    Prompt,
    Scale,
    Serves,
)
from sits.spec._trigger import And, Comparator, Comparison, Held, Not, Or, Trigger, TriggerError
from sits.spec._trigger_parse import parse_trigger
from sits.spec._unit import Unit

__all__ = [
    "API_VERSION",
    "DNS_LABEL",
    "KIND",
    "MAX_UNIT_BYTES",
    "METRICS",
    "SCHEMA_ID",
    "Accelerator",
    "AdapterReference",
    "AdapterScheme",
    "And",
    "Budget",
    "Comparator",
    "Comparison",
    "Count",
    "Endpoint",
    "EngineKind",
    "EngineSpec",
    "Hardware",
    "Held",
    "IdleField",
    "Loaded",
    "LoraAdapter",
    "Metric",
    "ModelReference",
    "ModelScheme",
    "Money",
    "Not",
    "Or",
    "Period",
    "Places",
    "Prompt",
    "Quantity",
    "QuantityError",
    "Rate",
    "Scale",
    "Serves",
    "Session",
    "Share",
    "Size",
    "Slo",
    "SpecError",
    "Surroundings",
    "Time",
    "Trigger",
    "TriggerError",
    "Unit",
    "canonical_json",
    "cluster_form",
    "find_metric",
    "idle_fields",
    "inline_prompt_file",
    "is_acted_on",
    "load_unit",
    "load_unit_bytes",
    "load_unit_json",
    "parse_adapter_reference",
    "parse_model_reference",
    "parse_trigger",
    "revision_id",
    "served_adapters",
    "unit_from_json",
    "unit_schema",
]
