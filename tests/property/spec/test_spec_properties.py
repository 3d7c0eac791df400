"""Whatever the text: a unit or a `SpecError`; and units come back from their own text."""

import json
import string
from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from sits.spec import (
    Loaded,
    SpecError,
    canonical_json,
    load_unit,
    load_unit_json,
    revision_id,
    unit_from_json,
)

names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
units = st.fixed_dictionaries(
    {"name": names, "model": names.map("builtin://{}".format)},
    optional={
        "prompt": st.one_of(
            texts, st.fixed_dictionaries({}, optional={"system": texts, "template": texts})
        ),
        "trainer": texts,
        "labels": st.dictionaries(texts, texts, max_size=3),
        "scale": st.fixed_dictionaries(
            {"min_instances": st.integers(0, 9), "max_instances": st.integers(9, 99)}
        ),
    },
)
yaml_like = st.text(string.ascii_lowercase + " \n:-[]{}&*!|>'\"#?%@`,<\t0123456789", max_size=80)


def error_of(load: Callable[[str, str], Loaded], text: str) -> SpecError | None:
    """Return what was wrong with a text, if anything."""
    try:
        load(text, "any")
    except SpecError as error:
        return error
    return None


@given(units)
def test_a_unit_written_by_another_yaml_or_json_writer_loads_and_keeps_its_revision(
    values: dict[str, Any],
) -> None:
    from_yaml = load_unit(yaml.safe_dump(values, allow_unicode=True), "a.yaml").unit
    from_json = load_unit_json(json.dumps(values), "a.json").unit
    assert from_yaml == from_json
    assert from_yaml.name == values["name"]
    assert dict(from_yaml.labels) == values.get("labels", {})
    again = unit_from_json(canonical_json(from_yaml))
    assert again == from_yaml
    assert revision_id(again) == revision_id(from_json)


@given(st.one_of(st.text(), yaml_like))
def test_any_text_is_a_unit_or_a_spec_error(text: str) -> None:
    for load in (load_unit, load_unit_json):
        error = error_of(load, text)
        assert error is None or error.source == "any"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
    st.sampled_from(["name", "model", "prompt", "scale", "labels", "adapter", "other"]),
)
def test_any_value_in_any_field_is_taken_or_refused_by_name(value: Any, field: str) -> None:
    values = {"name": "a", "model": "builtin://x", field: value}
    error = error_of(load_unit_json, json.dumps(values))
    assert error is None or error.field.split(".")[0].split("[")[0] in {field, ""}
