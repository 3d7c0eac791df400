"""Where in its file a field of a unit is, also for what is found to be wrong later."""

from pathlib import PurePosixPath

import pytest

from sits.spec import SpecError, inline_prompt_file, load_unit, load_unit_json

PLAIN = """\
name: a
model: openai://x
tenant: team-a
engine:
  kind: openai
  endpoints:
    - https://one.example/v1
    - url: https://two.example/v1
      secret: k
prompt:
  template: |
    Hello
    {{ text }}
labels:
  a.b: c
"""
CLUSTER = """\
apiVersion: sits.dev/v1alpha1
kind: IntelligenceUnit
metadata:
  name: a
  namespace: team-a
spec:
  model: openai://x
  engine: {kind: openai, endpoints: ['https://one.example/v1']}
  prompt: Hello {{ text }}
"""


@pytest.mark.parametrize(
    ("text", "field", "place"),
    [
        (PLAIN, "model", "unit.yaml:2: model"),
        (PLAIN, "tenant", "unit.yaml:3: tenant"),
        (PLAIN, "engine.endpoints[0].url", "unit.yaml:7: engine.endpoints[0]"),
        (PLAIN, "engine.endpoints[1].secret", "unit.yaml:9: engine.endpoints[1].secret"),
        (PLAIN, "prompt.template", "unit.yaml:11: prompt.template"),
        (PLAIN, "labels.a.b", "unit.yaml:14: labels.a.b"),
        (PLAIN, "scale.idle", "unit.yaml: scale.idle"),
        (CLUSTER, "name", "unit.yaml:4: metadata.name"),
        (CLUSTER, "tenant", "unit.yaml:5: metadata.namespace"),
        (CLUSTER, "model", "unit.yaml:7: spec.model"),
        (CLUSTER, "engine.endpoints[0].url", "unit.yaml:8: spec.engine.endpoints[0]"),
        (CLUSTER, "prompt.template", "unit.yaml:9: spec.prompt"),
    ],
)
def test_a_field_is_called_what_the_file_calls_it_and_is_on_its_line(
    text: str, field: str, place: str
) -> None:
    places = load_unit(text, "unit.yaml").places
    assert str(places.error(field, "is odd", "unit.yaml")) == f"{place}: is odd"


@pytest.mark.parametrize("field", ["", "[", "dry_run", "...", "scale"])
def test_what_the_file_says_nothing_of_has_no_place(field: str) -> None:
    places = load_unit(PLAIN, "unit.yaml").places
    assert not places.has(field)
    assert places.error(field, "is odd", "unit.yaml").line is None


def test_the_lines_of_a_literal_block_are_the_files() -> None:
    places = load_unit(PLAIN, "unit.yaml").places
    lines = PLAIN.splitlines()
    assert lines[(places.line_inside("prompt.template", 2) or 0) - 1] == "    {{ text }}"


@pytest.mark.parametrize(
    ("prompt", "first", "second"),
    [
        ("prompt: '{{ a }}'\n", 3, None),
        ("prompt:\n  template: >\n    {{ a }}\n    {{ b }}\n", None, None),
        ('prompt: "a\\nb"\n', None, None),
        ("prompt: |-\n\n  {{ a }}\n", 4, 5),
        ("prompt: |\r\n  {{ a }}\r\n  {{ b }}\r\n", 4, 5),
        ("prompt:\n  template:\n    |\n    {{ a }}\n    {{ b }}\n", 6, 7),
    ],
)
def test_a_line_of_a_text_is_told_where_it_is_certain(
    prompt: str, first: int | None, second: int | None
) -> None:
    places = load_unit(f"name: a\nmodel: builtin://x\n{prompt}", "unit.yaml").places
    assert places.line_inside("prompt.template", 1) == first
    assert places.line_inside("prompt.template", 2) == second


def test_json_has_fields_and_no_lines() -> None:
    places = load_unit_json('{"name": "a", "model": "builtin://x"}', "a.json").places
    assert str(places.error("model", "is odd", "a.json")) == "a.json: model: is odd"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: a\nmodel: builtin://x\nprompt:\n  file: ../x\n", "u.yaml:4: prompt.file: "),
        (
            CLUSTER.replace("prompt: Hello {{ text }}", "prompt: {file: gone.txt}"),
            "u.yaml:9: spec.prompt.file: ",
        ),
        ("name: a\nmodel: builtin://x\nprompt: {file: nul.txt}\n", "u.yaml:3: prompt.file: "),
    ],
)
def test_a_prompt_file_that_cannot_be_used_has_its_line(text: str, place: str) -> None:
    def read(path: PurePosixPath) -> str:
        if path.name == "nul.txt":
            return "a\0b"
        raise FileNotFoundError(2, "No such file or directory")

    loaded = load_unit(text, "u.yaml")
    with pytest.raises(SpecError) as caught:
        inline_prompt_file(loaded.unit, read, source="u.yaml", places=loaded.places)
    assert str(caught.value).startswith(place)
