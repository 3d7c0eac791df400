"""What the platform refuses is said with the place in the file that the command has read."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner, Result

from sits import SitsError
from sits.cli import _client
from sits.cli._app import app
from sits.cli._unit_file import read_unit

Refuse = Callable[[str, str | None], None]
BLOCK = """\
name: chat
model: builtin://smollm2-135m-instruct
prompt:
  system: Be kind.
  template: |
    Hello,
    {{ text }
"""
SYNTAX = (
    "the unit: prompt.template: the unit's prompt template, line {}: unexpected '}}'; expected a "
    "Jinja2 template: mend it and deploy again"
)


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    def use(message: str, param: str | None) -> None:
        body = {"error": {"message": message, "param": param, "code": "x"}}
        transport = httpx2.MockTransport(lambda _request: httpx2.Response(422, json=body))
        monkeypatch.setattr(_client, "connect", lambda: _client.Api("http://x", "k", transport))

    return use


def refusal(path: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["iu", *(arguments or ("deploy",)), "--file", str(path)])
    return str(result.exception).replace(f"{path.parent}/", "")


def test_a_syntax_error_in_a_block_has_the_line_of_the_file(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "unit.yaml").write_text(BLOCK)
    refuse(SYNTAX.format(2), "prompt.template")
    assert refusal(tmp_path / "unit.yaml") == (
        "unit.yaml:7: prompt.template: unexpected '}'; expected a Jinja2 template: mend it and "
        "deploy again"
    )


def test_a_diff_says_it_as_well(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "unit.yaml").write_text(BLOCK)
    refuse(SYNTAX.format(2), "prompt.template")
    assert refusal(tmp_path / "unit.yaml", "diff").startswith("unit.yaml:7: prompt.template: un")


@pytest.mark.parametrize(
    ("prompt", "number", "said"),
    [
        ("prompt: '{{ a }'\n", 1, "unit.yaml:3: prompt: unexpected"),
        ('prompt: "a\\n{{ a }"\n', 2, "unit.yaml:3: prompt: line 2 of the text: unexpected"),
    ],
)
def test_a_syntax_error_elsewhere_has_the_line_of_the_field(
    tmp_path: Path, refuse: Refuse, prompt: str, number: int, said: str
) -> None:
    (tmp_path / "unit.yaml").write_text(f"name: chat\nmodel: builtin://x\n{prompt}")
    refuse(SYNTAX.format(number), "prompt.template")
    assert refusal(tmp_path / "unit.yaml").startswith(said)


def test_a_syntax_error_in_a_prompt_file_names_both_places(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "unit.yaml").write_text("name: a\nmodel: builtin://x\nprompt:\n  file: ask.txt\n")
    (tmp_path / "ask.txt").write_text("Hello\n\n{{ text }\n")
    refuse(SYNTAX.format(3), "prompt.template")
    assert refusal(tmp_path / "unit.yaml").startswith(
        "unit.yaml:4: prompt.file: ask.txt:3: unexpected '}'"
    )


def test_a_model_that_cannot_be_had_has_its_line(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "unit.yaml").write_text("name: a\nmodel: builtin://nope\n")
    refuse("model 'builtin://nope' is not a builtin; expected builtin://b", "model")
    assert refusal(tmp_path / "unit.yaml") == (
        "unit.yaml:2: model: 'builtin://nope' is not a builtin; expected builtin://b"
    )


def test_a_field_of_the_clusters_form_is_called_as_there(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "unit.yaml").write_text(
        "apiVersion: sits.dev/v1alpha1\nkind: IntelligenceUnit\nmetadata:\n  name: a\n"
        "  namespace: team-b\nspec: {model: 'builtin://x'}\n"
    )
    refuse("tenant: is 'team-b', and the key that deploys it is of 'default'", "tenant")
    assert refusal(tmp_path / "unit.yaml") == (
        "unit.yaml:5: metadata.namespace: is 'team-b', and the key that deploys it is of 'default'"
    )


@pytest.mark.parametrize("param", [None, "dry_run", "region"])
def test_what_is_not_of_the_file_is_said_as_it_is(
    tmp_path: Path, refuse: Refuse, param: str | None
) -> None:
    (tmp_path / "unit.yaml").write_text("name: a\nmodel: builtin://x\n")
    refuse("region: is the text 'Nowhere'", param)
    assert refusal(tmp_path / "unit.yaml") == "region: is the text 'Nowhere'"


def from_input(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, input=text)


@pytest.mark.parametrize("command", ["deploy", "diff"])
def test_a_hyphen_is_standard_input(command: str) -> None:
    error = from_input("name: a\nmodle: x\n", "iu", command, "--file", "-").exception
    assert str(error).startswith("standard input:2: modle: is not a known field")


def test_a_unit_of_standard_input_is_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, str]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        told = {"name": "a", "revision": "0", "endpoint": "http://x/v1", "phase": None}
        return httpx2.Response(200, json={**told, "notes": []})

    api = _client.Api("http://x", "k", httpx2.MockTransport(answer))
    monkeypatch.setattr(_client, "connect", lambda: api)
    result = from_input("name: a\nmodel: builtin://x\n", "iu", "deploy", "--file", "-", "--dry-run")
    assert (result.exit_code, sent[0]["name"]) == (0, "a")


def test_suggestions_are_of_the_units_directory(tmp_path: Path) -> None:
    (tmp_path / "unit.yaml").write_text("name: a\nmodel: ./models/my.gguf\n")
    with pytest.raises(SitsError, match=f": write file://{tmp_path}/models/my.gguf$"):
        read_unit(tmp_path / "unit.yaml")


def test_suggestions_know_the_models_that_come_with_the_platform(tmp_path: Path) -> None:
    (tmp_path / "unit.yaml").write_text("name: a\nmodel: smollm2-135m-instruct\n")
    assert refusal(tmp_path / "unit.yaml").endswith(": write builtin://smollm2-135m-instruct")


def test_a_unit_that_is_read_from_input_looks_for_prompts_where_the_person_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ask.txt").write_text("Hello {{ x }}")
    monkeypatch.chdir(tmp_path)
    text = b"name: a\nmodel: builtin://x\nprompt: {file: ask.txt}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert read_unit(Path("-")).values["prompt"] == {"template": "Hello {{ x }}"}
