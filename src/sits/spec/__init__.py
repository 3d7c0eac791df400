"""What a unit is, as data: its file read strictly, its references, its canonical form.

    text --_yaml--> plain values with lines --_repair--> known slips mended, each with a note
         --_unit--> `Unit` (frozen) --_canonical--> JSON and revision id

`load_unit` walks that line for a YAML file, `load_unit_json` for a JSON document. Both are
pure: a prompt that lies in a file of its own is put in by `inline_prompt_file`, which is given
the function that reads. What is wrong with a file is a `SpecError` that names the file, line
and field. Nothing here knows a clock, a file system or a network.
"""

from sits.spec._canonical import canonical_json, revision_id, unit_from_json
from sits.spec._errors import SpecError
from sits.spec._load import MAX_UNIT_BYTES, Loaded, load_unit, load_unit_json
from sits.spec._prompt_file import inline_prompt_file
from sits.spec._reference import ModelReference, ModelScheme, parse_model_reference
from sits.spec._unit import Prompt, Scale, Unit

__all__ = [
    "MAX_UNIT_BYTES",
    "Loaded",
    "ModelReference",
    "ModelScheme",
    "Prompt",
    "Scale",
    "SpecError",
    "Unit",
    "canonical_json",
    "inline_prompt_file",
    "load_unit",
    "load_unit_json",
    "parse_model_reference",
    "revision_id",
    "unit_from_json",
]
