"""Units read from text: what loads, and what people are told about the rest."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sits.spec import (
    MAX_UNIT_BYTES,
    Loaded,
    SpecError,
    load_unit,
    load_unit_bytes,
    load_unit_json,
)

EXAMPLES = Path(__file__).parents[3] / "examples"
MINIMAL = "name: a\nmodel: builtin://x\n"


@pytest.mark.parametrize("file", ["bert-finetune-adapter.yaml", "bert-finetune-trainer.yaml"])
def test_the_two_published_files_load_as_they_stand(file: str) -> None:
    loaded = load_unit((EXAMPLES / file).read_text(), file)
    assert loaded.unit.name == "bert-finetune-iu"
    assert str(loaded.unit.model) == "huggingface://bert-base-uncased@v2.4.1"
    assert (loaded.unit.scale.min_instances, loaded.unit.scale.max_instances) == (1, 32)


def test_fields_whose_part_is_not_built_are_kept_and_said_to_wait() -> None:
    adapter = load_unit((EXAMPLES / "bert-finetune-adapter.yaml").read_text(), "a.yaml")
    trainer = load_unit((EXAMPLES / "bert-finetune-trainer.yaml").read_text(), "t.yaml")
    assert adapter.unit.adapter == "dataflow://clickstream-preprocessor@v3"
    assert str(adapter.unit.scale.trigger) == "latency_p95 > 800ms || gpu_util > 85%"
    assert trainer.unit.trainer == "torch.distributed.ddp"
    assert [note.partition(":")[0] for note in adapter.notes] == ["adapter", "scale.trigger"]
    assert [note.partition(":")[0] for note in trainer.notes] == ["trainer", "scale.trigger"]
    assert all("not acted on" in note for note in adapter.notes + trainer.notes)


def test_the_chat_example_loads_without_notes() -> None:
    loaded = load_unit((EXAMPLES / "chat.yaml").read_text(), "chat.yaml")
    assert loaded.notes == ()
    assert loaded.unit.prompt is not None
    assert loaded.unit.prompt.template == "{{ question }}"


@pytest.mark.parametrize(
    ("model", "proper"),
    [
        ("bert-base-uncasedv2.4.1", "huggingface://bert-base-uncased@v2.4.1"),
        ("huggingface://bert-base-uncasedv2.4.1", "huggingface://bert-base-uncased@v2.4.1"),
        ("huggingface://google/bertv1.0", "huggingface://google/bert@v1.0"),
    ],
)
def test_a_model_whose_at_sign_was_lost_loads_with_a_note_of_the_proper_form(
    model: str, proper: str
) -> None:
    loaded = load_unit(f"name: a\nmodel: {model}\n", "a.yaml")
    assert str(loaded.unit.model) == proper
    assert loaded.unit.model.revision == proper.partition("@")[2]
    assert any(model in note and proper in note for note in loaded.notes)


@pytest.mark.parametrize(
    "adapter", ["clickstream-preprocessor-v3", "dataflow://clickstream-preprocessor-v3"]
)
def test_an_adapter_whose_at_sign_was_lost_loads_with_a_note(adapter: str) -> None:
    loaded = load_unit(MINIMAL + f"adapter: {adapter}\n", "a.yaml")
    assert loaded.unit.adapter == "dataflow://clickstream-preprocessor@v3"
    assert any("dataflow://clickstream-preprocessor@v3" in note for note in loaded.notes)


@pytest.mark.parametrize(
    "model",
    [
        "huggingface://mistralai/Mistral-7B-Instruct-v0.3",
        "huggingface://TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        "huggingface://sentence-transformers/all-MiniLM-L6-v2",
    ],
)
def test_names_on_hugging_face_that_end_in_a_version_stay_as_they_are(model: str) -> None:
    loaded = load_unit(f"name: a\nmodel: {model}\n", "a.yaml")
    assert str(loaded.unit.model) == model
    assert loaded.notes == ()


def test_defaults_are_zero_to_one_instance_and_nothing_else() -> None:
    unit = load_unit(MINIMAL, "a.yaml").unit
    assert (unit.scale.min_instances, unit.scale.max_instances) == (0, 1)
    assert (unit.prompt, unit.adapter, unit.trainer, dict(unit.labels)) == (None, None, None, {})


@pytest.mark.parametrize("word", ["on", "no", "yes", "off", "y", "n", "2026-01-02"])
def test_words_that_older_yaml_takes_for_booleans_or_dates_are_text(word: str) -> None:
    unit = load_unit(MINIMAL + f"labels: {{{word}: {word}}}\n", "a.yaml").unit
    assert dict(unit.labels) == {word: word}


def test_a_prompt_may_be_its_template_alone() -> None:
    unit = load_unit(MINIMAL + "prompt: 'Say {{ word }}'\n", "a.yaml").unit
    assert unit.prompt is not None
    assert (unit.prompt.template, unit.prompt.system) == ("Say {{ word }}", None)


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("", None, "", "is empty; expected a mapping"),
        ("- a\n", 1, "", "is a list; expected a mapping"),
        ("name: a\n", 1, "model", "is missing; expected builtin://NAME"),
        ("name: a\nmodle: builtin://x\n", 2, "modle", "did you mean `model`?"),
        (MINIMAL + "scale:\n  min_instance: 1\n", 4, "scale.min_instance", "`min_instances`"),
        (MINIMAL + "name: b\n", 3, "name", "given twice, first on line 1"),
        ("name: 3\nmodel: builtin://x\n", 1, "name", 'Write "3" in quotes'),
        ("name: Chat\nmodel: builtin://x\n", 1, "name", "'Chat'; expected a DNS label"),
        (f"name: {'a' * 64}\nmodel: builtin://x\n", 1, "name", "1 to 63"),
        ('name: "a\\n"\nmodel: builtin://x\n', 1, "name", "expected a DNS label"),
        ("name: a\nmodel: x\n", 2, "model", "has no scheme; expected builtin://NAME"),
        ("name: a\nmodel: [x]\n", 2, "model", "is a list; expected builtin://NAME"),
        (MINIMAL + "labels: {a: true}\n", 3, "labels.a", "the boolean true; expected text"),
        (MINIMAL + "labels: {a: 1.10}\n", 3, "labels.a", 'Write "1.10" in quotes'),
        (MINIMAL + "scale: {max_instances: 010}\n", 3, "scale.max_instances", "the text '010'"),
        (MINIMAL + "scale: {max_instances: 0}\n", 3, "scale.max_instances", "from 1 to"),
        (MINIMAL + "scale: {min_instances: -1}\n", 3, "scale.min_instances", "from 0 to"),
        (MINIMAL + "scale: {min_instances: true}\n", 3, "scale.min_instances", "boolean"),
        (MINIMAL + "scale: {min_instances: 2}\n", 3, "scale", "max_instances 1 (the default)"),
        (MINIMAL + "scale: 3\n", 3, "scale", "the number 3; expected a mapping"),
        (MINIMAL + "prompt: {template: a, file: b}\n", 3, "prompt", "both `template` and `file`"),
        (MINIMAL + "prompt: [a]\n", 3, "prompt", "is a list; expected text"),
        ("a: &x 1\nb: *x\n", 1, "a", "has the anchor (&x)"),
        ("a: !!python/object:os.system x\n", 1, "a", "has the tag"),
        ("a:\n  <<: {b: 1}\n", 2, "a", "merge key"),
        ("? [a]\n: b\n", 1, "", "as a key"),
        (MINIMAL + "prompt: {{ q }}\n", 3, "prompt", "quote a text that begins with '{', such"),
        (MINIMAL + "prompt:\n  template: {{ q }} now\n", 4, "prompt.template", "quote a text"),
        (MINIMAL + "prompt: {[a]: b}\n", 3, "prompt", "quote a text that begins with '['"),
        (MINIMAL + "trigger: x\n", 3, "trigger", "field; it belongs under `scale`; expected"),
        (MINIMAL + "min_instances: 1\n", 3, "min_instances", "it belongs under `scale`"),
        (MINIMAL + "max_instances: 1\n", 3, "max_instances", "it belongs under `scale`"),
        (MINIMAL + "template: x\n", 3, "template", "it belongs under `prompt`"),
        (MINIMAL + "scale:\n  labels: {}\n", 4, "scale.labels", "it belongs at the top"),
        ("name: a\n---\nname: b\n", 2, "", "more than one document"),
        ("name: [\n", 2, "", "is not YAML"),
        ("name: \x00\n", 1, "", "has the character U+0000"),
    ],
)
def test_what_is_wrong_is_said_with_line_field_and_what_was_expected(
    text: str, line: int | None, field: str, words: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_unit(text, "unit.yaml")
    assert (caught.value.source, caught.value.line, caught.value.field) == (
        "unit.yaml",
        line,
        field,
    )
    assert words in str(caught.value)
    assert str(caught.value).startswith("unit.yaml:" if line is None else f"unit.yaml:{line}: ")


@pytest.mark.parametrize("load", [load_unit, load_unit_json])
def test_a_text_over_256_kibibytes_is_refused(load: Callable[[str, str], Loaded]) -> None:
    with pytest.raises(SpecError, match="larger than 262144 bytes; expected"):
        load(MINIMAL + "#" + "x" * MAX_UNIT_BYTES, "big.yaml")


def test_the_beginning_of_a_file_is_enough_to_refuse_a_large_one() -> None:
    """A reader that stops after one byte too many may have cut a character in two."""
    data = (MINIMAL + "#" + "\u00e4" * MAX_UNIT_BYTES).encode()[: MAX_UNIT_BYTES + 1]
    with pytest.raises(SpecError, match="larger than 262144 bytes"):
        load_unit_bytes(data, "big.yaml")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (MINIMAL.encode("utf-16"), "is UTF-16; expected UTF-8"),
        (b"name: a\nmodel: \xff\n", "a.yaml:2: has a byte that is no UTF-8 (0xff)"),
        (b"", "is empty"),
    ],
)
def test_bytes_that_are_no_text_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_unit_bytes(data, "a.yaml")
    assert words in str(caught.value)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_bytes_load_as_text_with_a_byte_order_mark_or_without(mark: bytes) -> None:
    assert load_unit_bytes(mark + MINIMAL.encode(), "a.yaml") == load_unit(MINIMAL, "a.yaml")


@pytest.mark.parametrize("load", [load_unit, load_unit_json])
def test_more_values_than_any_unit_has_are_refused(load: Callable[[str, str], Loaded]) -> None:
    labels = ",".join(f'"k{number}": "v"' for number in range(2000))
    text = f'{{"name": "a", "model": "builtin://x", "labels": {{{labels}}}}}'
    with pytest.raises(SpecError, match="more than 2000 values"):
        load(text, "a.yaml")


@pytest.mark.parametrize("text", ["[" * 100_000, "a: " + "{b: " * 100])
def test_deep_nesting_is_refused_and_not_followed(text: str) -> None:
    with pytest.raises(SpecError):
        load_unit(text, "deep.yaml")
    with pytest.raises(SpecError):
        load_unit_json(text, "deep.json")


def test_json_loads_like_yaml() -> None:
    text = '{"name": "a",\t"model": "builtin://x"}'
    assert load_unit_json(text, "a.json").unit == load_unit(MINIMAL, "a.yaml").unit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "a", "name": "b"}', "'name' is given twice"),
        ('{"name": ', "is not JSON"),
        ('{"name":"a","model":"builtin://x","labels":{"k":"\\ud800"}}', "surrogate"),
        ('{"name":"a","model":"builtin://x","scale":{"max_instances":NaN}}', "number nan"),
        ("9" * 5000, "is not usable JSON"),
    ],
)
def test_json_that_is_no_unit_is_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_unit_json(text, "a.json")


def elsewhere(*endpoints: str) -> str:
    listed = "".join(f"\n    - {endpoint}" for endpoint in endpoints)
    return f"name: a\nmodel: openai://x\nengine:\n  kind: openai\n  endpoints:{listed}\n"


@pytest.mark.parametrize("host", ["models.example", "10.0.0.7:8000", "[2001:db8::1]:8000"])
def test_a_key_that_goes_over_the_network_in_the_clear_is_noted(host: str) -> None:
    safe = "{url: 'https://x.example/v1', secret: k1}"
    loaded = load_unit(elsewhere(safe, f"{{url: 'http://{host}/v1', secret: k2}}"), "a.yaml")
    (note,) = loaded.notes
    assert note.startswith("engine.endpoints[1].url: ")
    assert "'k2'" in note
    assert f"http://{host}/v1" in note
    assert "https://" in note


@pytest.mark.parametrize(
    "endpoint",
    [
        "{url: 'http://127.0.0.1:8000/v1', secret: k}",
        "{url: 'http://127.9.9.9/v1', secret: k}",
        "{url: 'http://[::1]:8000/v1', secret: k}",
        "{url: 'http://localhost:8000/v1', secret: k}",
        "{url: 'http://vllm.localhost/v1', secret: k}",
        "{url: 'https://models.example/v1', secret: k}",
        "{url: 'http://models.example/v1'}",
    ],
)
def test_a_key_that_nobody_can_listen_to_is_not_noted(endpoint: str) -> None:
    assert load_unit(elsewhere(endpoint), "a.yaml").notes == ()


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://user:sesame@x.example/v1",
        "https://user:ses/ame@x.example/v1",
        "https://x.example/v1?key=sesame",
        "{url: 'https://sesame@x.example/v1/@there'}",
        "{url: 'https://x.example', secret: 'Sesame open for 1 key'}",
    ],
)
def test_what_may_be_a_key_is_not_in_a_message(endpoint: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_unit(elsewhere(endpoint), "a.yaml")
    assert "ame" not in str(caught.value).partition("expected")[0].casefold().replace("name", "")


def test_an_at_sign_in_a_path_is_no_password() -> None:
    unit = load_unit(elsewhere("https://x.example/v1/@me/models:7"), "a.yaml").unit
    assert unit.engine.endpoints[0].url == "https://x.example/v1/@me/models:7"
