"""Everything in the corpus: what loads, to what, and what exactly is said of the rest."""

import itertools
import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from sits.spec import (
    SpecError,
    canonical_json,
    cluster_form,
    load_unit,
    load_unit_json,
    parse_model_reference,
    unit_from_json,
    unit_schema,
)
from sits.spec._yaml import read_yaml
from tests.unit.spec.corpus import GOOD, Bad, bad_references, bad_units

BAD_UNITS = list(bad_units())
BAD_REFERENCES = list(bad_references())
# What a schema cannot say: sums, order, what belongs together, grammar, steps, and what YAML is.
NOT_IN_SCHEMA = (
    "over max_instances",
    "under idle",
    "has both",
    "has no amount",
    "two budgets",
    "without endpoints",
    "with endpoints",
    "is openai, and",
    "is llamacpp, and",
    "is llamacpp and serves",
    "has `count` for cpu",
    "adapters, and",
    "has weights of",
    "twice; remove one",
    "is wrong at column",
    "in steps of",
    "of at most",
    "the address of one call",
    "host or port is none",
    "looks like a key",
    "is a server of its own, reached",
    "which is no text",
    "the number 2.0;",  # which is a whole number to JSON Schema
    "does not name a GGUF file",
)


def one_of_each_name() -> list[list[Path]]:
    return [list(same) for _, same in itertools.groupby(GOOD, lambda path: path.name.split(".")[0])]


def message_of(text: str) -> str:
    try:
        load_unit(text, "unit.yaml")
    except SpecError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = unit_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_corpus_has_at_least_200_bad_units_and_references() -> None:
    assert len({*BAD_UNITS, *BAD_REFERENCES}) == len(BAD_UNITS) + len(BAD_REFERENCES) >= 200


@pytest.mark.parametrize("bad", BAD_UNITS, ids=lambda bad: bad.text[-40:])
def test_a_bad_unit_is_refused_with_exactly_its_message(bad: Bad) -> None:
    with pytest.raises(SpecError) as caught:
        load_unit(bad.text, "unit.yaml")
    assert str(caught.value) == bad.says


@pytest.mark.parametrize("bad", BAD_REFERENCES, ids=lambda bad: bad.text)
def test_a_bad_reference_is_refused_with_exactly_its_message(bad: Bad) -> None:
    with pytest.raises(ValueError, match=re.escape(bad.says) + "$"):
        parse_model_reference(bad.text)


def test_a_message_has_file_line_and_no_words_of_a_library() -> None:
    for bad in BAD_UNITS:
        assert bad.says.startswith(("unit.yaml:", "unit.yaml: "))
        assert not any(word in bad.says for word in ("pydantic", "Traceback", "Token(", "NoneType"))
        assert len(bad.says) < 700


@pytest.mark.parametrize("bad", BAD_UNITS, ids=lambda bad: bad.text[-40:])
def test_what_a_message_tells_to_write_is_right(bad: Bad) -> None:
    """Each `write X` of a value is put in its place, and is then no longer what is wrong."""
    _, told, advice = bad.says.rpartition(": write ")
    given = bad.says.partition("'")[2].partition("'")[0]
    if not told or "is the text" not in bad.says or bad.text.count(given) != 1:
        return
    given = f"'{given}'" if f"'{given}'" in bad.text else given
    mended = bad.text.replace(given, advice.split(" or ")[0])
    assert message_of(mended).partition("; expected")[2] != bad.says.partition("; expected")[2]


@pytest.mark.parametrize("same", one_of_each_name(), ids=lambda same: same[0].stem)
def test_files_that_say_the_same_in_other_words_load_to_equal_units(same: list[Path]) -> None:
    units = [load_unit(path.read_text("utf-8"), path.name).unit for path in same]
    assert all(unit == units[0] for unit in units)
    assert len({canonical_json(unit) for unit in units}) == 1


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_unit_comes_back_from_every_form_of_it(path: Path) -> None:
    unit = load_unit(path.read_text("utf-8"), path.name).unit
    assert unit_from_json(canonical_json(unit)) == unit
    assert load_unit(canonical_json(unit), "as YAML").unit == unit
    assert load_unit(yaml.safe_dump(cluster_form(unit)), "cluster").unit == unit
    assert load_unit_json(json.dumps(cluster_form(unit)), "cluster").unit == unit


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_the_schema_accepts_what_loads(
    path: Path, validator: jsonschema.Draft202012Validator
) -> None:
    text = path.read_text("utf-8")
    unit = load_unit(text, path.name).unit
    as_read = read_yaml(text, path.name).value
    for values in (as_read, json.loads(canonical_json(unit)), cluster_form(unit)):
        assert [error.message for error in validator.iter_errors(values)] == []


@pytest.mark.parametrize("bad", BAD_UNITS, ids=lambda bad: bad.text[-40:])
def test_the_schema_refuses_what_a_schema_can(
    bad: Bad, validator: jsonschema.Draft202012Validator
) -> None:
    if any(words in bad.says for words in NOT_IN_SCHEMA):
        return
    try:
        values = read_yaml(bad.text, "unit.yaml").value
    except SpecError:
        return
    assert not validator.is_valid(values)
