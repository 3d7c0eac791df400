"""What is suggested where more is known than the file; and what is never shown."""

import json
from collections.abc import Callable

import pytest

from sits.spec import Loaded, SpecError, Surroundings, load_unit, load_unit_json

HERE = Surroundings(
    directory="/home/me/units", builtins=lambda: ("smollm2-135m-instruct", "all-minilm-l6-v2")
)
TOO_MANY_DIGITS = '{"name": "a", "model": "builtin://x", "budget": {"tokens": %s}}' % ("9" * 5000)


def refusal(text: str, around: Surroundings = HERE) -> str:
    with pytest.raises(SpecError) as caught:
        load_unit(text, "unit.yaml", around)
    return str(caught.value)


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("./models/my.gguf", "file:///home/me/units/models/my.gguf"),
        ("models/my.gguf", "file:///home/me/units/models/my.gguf"),
        ("my.gguf", "file:///home/me/units/my.gguf"),
        ("../my.gguf", "file:///home/me/my.gguf"),
        ("file://./model.gguf", "file:///home/me/units/model.gguf"),
        ("file://models/my.gguf", "file:///home/me/units/models/my.gguf"),
        ("file:my.gguf", "file:///home/me/units/my.gguf"),
        ("my%20model.gguf", "file:///home/me/units/my%2520model.gguf"),
        ("/models/my.gguf", "file:///models/my.gguf"),
        ("file:/models/my.gguf", "file:///models/my.gguf"),
        ("smollm2-135m-instruct", "builtin://smollm2-135m-instruct"),
        ("SmolLM2", "builtin://smollm2-135m-instruct"),
        ("smolm2-135m-instruct", "builtin://smollm2-135m-instruct"),
        ("org/name", "huggingface://org/name"),
    ],
)
def test_a_model_is_suggested_as_it_is_meant_where_the_file_lies(model: str, meant: str) -> None:
    assert refusal(f"name: a\nmodel: {model}\n").endswith(f": write {meant}")


def test_an_adapter_beside_the_unit_is_suggested_with_its_whole_path() -> None:
    text = "name: a\nmodel: builtin://x\nlora: [{adapter: tone.gguf}]\n"
    assert refusal(text).endswith(": write file:///home/me/units/tone.gguf")


@pytest.mark.parametrize("model", ["gpt-4o", "~/my.gguf", "llama3:8b"])
def test_what_nobody_can_know_is_not_guessed(model: str) -> None:
    assert ": write " not in refusal(f"name: a\nmodel: {model}\n")


@pytest.mark.parametrize("engine", ["openai", "{kind: openai, endpoints: ['http://[::1]:8000']}"])
@pytest.mark.parametrize("model", ["gpt-4o", "llama3:8b", "Qwen/Qwen3-0.6B", "smollm2"])
def test_a_name_is_the_endpoints_where_the_engine_is_elsewhere(engine: str, model: str) -> None:
    said = refusal(f"name: a\nmodel: {model}\nengine: {engine}\n")
    assert said.endswith(f": write openai://{model}")


@pytest.mark.parametrize(
    "system", ["You are {{ persona }}.", "{% if formal %}Be formal.{% endif %}"]
)
def test_a_system_message_that_looks_like_a_template_is_noted(system: str) -> None:
    text = json.dumps({"name": "a", "model": "builtin://x", "prompt": {"system": system}})
    (note,) = load_unit_json(text, "a.json").notes
    assert note.startswith("prompt.system: is constant text, and '{")
    assert "put it into prompt.template" in note


@pytest.mark.parametrize("system", ['Answer as JSON: {"a": {}}.', "100 %", "Be { kind }"])
def test_braces_alone_are_no_template(system: str) -> None:
    text = json.dumps({"name": "a", "model": "builtin://x", "prompt": {"system": system}})
    assert load_unit_json(text, "a.json").notes == ()


def test_a_number_of_thousands_of_digits_is_refused_in_words_for_people() -> None:
    with pytest.raises(SpecError, match="a number has 5000 digits; expected at most 100") as caught:
        load_unit_json(TOO_MANY_DIGITS, "a.json")
    assert "sys." not in str(caught.value)


@pytest.mark.parametrize("load", [load_unit, load_unit_json])
@pytest.mark.parametrize("escape", ["\\u0000", "\\u001b", "\\uffff", "\\u007f"])
@pytest.mark.parametrize(
    ("values", "field"),
    [
        ('"labels": {"x": "aX"}', "labels.x"),
        ('"labels": {"aX": "x"}', "labels"),
        ('"prompt": {"system": "aX"}', "prompt.system"),
        ('"prompt": "X"', "prompt"),
    ],
)
def test_what_is_no_text_is_none_in_yaml_and_in_json(
    load: Callable[[str, str], Loaded], escape: str, values: str, field: str
) -> None:
    text = '{"name": "a", "model": "builtin://x", ' + values.replace("X", escape) + "}"
    with pytest.raises(SpecError, match="which is no text; remove it") as caught:
        load(text, "a.yaml")
    assert caught.value.field == field
    assert f"U+{escape[2:].upper()}" in str(caught.value)


def test_half_a_character_is_none_in_json() -> None:
    text = '{"name": "a", "model": "builtin://x", "prompt": "\\ud83d"}'
    with pytest.raises(SpecError, match="half of a surrogate pair"):
        load_unit_json(text, "a.json")


def test_depth_is_no_trouble_in_json() -> None:
    text = '{"name": "a", "model": "builtin://x", "labels": {"a": ' + "[" * 900 + "]" * 900 + "}}"
    with pytest.raises(SpecError, match=r"labels\.a: is a list"):
        load_unit_json(text, "a.json")
