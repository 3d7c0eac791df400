"""What a unit's fields become, and which of them this version acts on."""

import json
from typing import Any

import pytest

from sits.spec import (
    AdapterReference,
    AdapterScheme,
    Share,
    Time,
    Unit,
    cluster_form,
    idle_fields,
    is_acted_on,
    load_unit,
    load_unit_json,
    parse_adapter_reference,
    unit_schema,
)
from sits.spec._idle import ACTED_ON, WAITING
from sits.spec._unit import SECTIONS
from tests.unit.spec.corpus import CORPUS

MINIMAL = "name: a\nmodel: builtin://x\n"


def unit_of(rest: str) -> Unit:
    return load_unit(MINIMAL + rest, "a.yaml").unit


def everything() -> Unit:
    return load_unit((CORPUS / "good" / "everything.yaml").read_text("utf-8"), "all").unit


def test_fields_are_typed() -> None:
    unit = everything()
    assert unit.scale.idle == Time.parse("5m")
    assert unit.lora[0].weight == Share.parse("25%")
    assert unit.slo is not None
    assert unit.slo.ttft_p95 == Time.parse("500ms")
    assert unit.budget[0].tokens == 2_000_000
    assert unit.hardware is not None
    assert unit.hardware.count == 0.25


def test_the_namespace_of_a_cluster_is_the_tenant() -> None:
    form = cluster_form(everything())
    assert form["metadata"] == {
        "name": "support",
        "namespace": "team-a",
        "labels": {"purpose": "support", "on": "yes"},
    }
    assert not {"name", "tenant", "labels"} & form["spec"].keys()


def test_what_a_cluster_writes_by_itself_is_left_out_with_a_note() -> None:
    loaded = load_unit((CORPUS / "good" / "trainer.cluster.yaml").read_text("utf-8"), "c")
    assert loaded.notes[0] == (
        "metadata.annotations, metadata.creationTimestamp, metadata.generation, "
        "metadata.resourceVersion, metadata.uid and status: the cluster's own, left out"
    )


def test_one_adapter_without_a_weight_gets_everything() -> None:
    assert unit_of("lora: adapter://tone@v2\n").lora[0].weight == Share.parse("100%")


@pytest.mark.parametrize(
    ("text", "scheme", "name", "revision"),
    [
        ("adapter://tone@v2", AdapterScheme.ADAPTER, "tone", "v2"),
        ("adapter://tone", AdapterScheme.ADAPTER, "tone", None),
        ("file:///p.gguf", AdapterScheme.FILE, "/p.gguf", None),
        ("huggingface://org/name@r", AdapterScheme.HUGGINGFACE, "name", "r"),
    ],
)
def test_an_adapter_has_a_scheme_a_name_and_a_revision(
    text: str, scheme: AdapterScheme, name: str, revision: str | None
) -> None:
    found: AdapterReference = parse_adapter_reference(text)
    assert (found.scheme, found.name, found.revision) == (scheme, name, revision)
    assert str(found) == text


def test_a_reference_that_an_adapter_cannot_have_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown scheme 'builtin'"):
        parse_adapter_reference("builtin://x")


def test_every_field_is_acted_on_or_says_what_it_waits_for() -> None:
    fields = set(Unit.model_fields) - set(SECTIONS)
    for home, section in SECTIONS.items():
        if "." not in home:
            fields |= {f"{home}.{name}" for name in section.model_fields}
    for field in fields:
        top = field.partition(".")[0]
        assert field in ACTED_ON or field in WAITING or top in WAITING, field
        assert is_acted_on(field) == (field in ACTED_ON)


def test_a_field_that_is_not_acted_on_is_told_with_its_value() -> None:
    fields = idle_fields(unit_of("scale: {trigger: 'gpu_util>85%', idle: 5m}\nregion: eu\n"))
    assert [(field.path, field.value) for field in fields] == [
        ("scale.trigger", "gpu_util > 85%"),
        ("region", "eu"),
    ]
    assert str(fields[1]) == (
        "region: 'eu' is kept, and not acted on by this version (there is one machine)"
    )


def test_of_a_section_that_waits_some_fields_may_be_acted_on() -> None:
    fields = idle_fields(unit_of("slo: {itl: 50ms, ttft: 1s}\n"))
    assert [field.path for field in fields] == ["slo.ttft_p95"]


def test_everything_that_is_not_acted_on_is_told() -> None:
    told = {field.path.partition(".")[0].partition("[")[0] for field in idle_fields(everything())}
    assert told == {"lora", *(field.partition(".")[0] for field in WAITING)}


def test_defaults_are_not_told() -> None:
    assert idle_fields(unit_of("")) == ()
    assert [str(f.path) for f in idle_fields(unit_of("hardware: {threads: 2}\n"))] == [
        "hardware.threads"
    ]


def test_the_schema_knows_every_field_with_title_description_and_example() -> None:
    schema = unit_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    sections = {name: part for name, part in schema["$defs"].items() if "properties" in part}
    assert {"Unit", "Scale", "Slo", "Budget", "Hardware", "LoraAdapter"} <= sections.keys()
    for name, part in sections.items():
        assert part["additionalProperties"] is False, name
        if name == "ClusterUnit":
            continue
        for field, words in part["properties"].items():
            assert words["title"], (name, field)
            assert words["description"], (name, field)
            assert words["examples"], (name, field)


# What a field's example needs beside it.
BESIDE: dict[str, dict[str, Any]] = {
    "lora": {"adapter": "adapter://a"},
    "budget": {"tokens": 1},
    "scale": {"max_instances": 9},
    "engine": {"kind": "openai", "endpoints": "https://x.example"},
    "engine.endpoints": {"url": "https://x.example"},
}


@pytest.mark.parametrize("home", ["", *SECTIONS])
def test_the_examples_of_every_field_load(home: str) -> None:
    section = SECTIONS.get(home, Unit)
    for name, field in section.model_fields.items():
        for example in field.examples or ():
            values: dict[str, Any] = {**BESIDE.get(home, {}), name: example}
            if home == "engine.endpoints":
                values = {"engine": {"kind": "openai", "endpoints": [values]}}
            elif home:
                values = {home: values}
            model = "openai://x" if "engine" in values else "builtin://x"
            load_unit_json(json.dumps({"name": "a", "model": model, **values}), "a.json")
