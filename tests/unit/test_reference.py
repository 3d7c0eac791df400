"""The reference: every field, setting, command, error and route is in it, as the code has it."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import make_reference
from reference_pages import PAGES
from reference_pages._codes import find_codes
from reference_pages._errors import MEANINGS, find_classes, make_errors_page
from sits.cli._app import app
from sits.control import HOST_TRANSITIONS, TRANSITIONS
from sits.node import Settings

DOCS = Path(__file__).parents[2] / "docs"


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_document_is_what_the_code_says(name: str) -> None:
    assert read(name) == PAGES[name](), "run `make docs`"


def test_a_document_that_is_out_of_date_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make_reference, "DOCS", tmp_path)
    assert make_reference.main(["--check"]) == 1
    assert make_reference.main([]) == 0
    assert make_reference.main(["--check"]) == 0
    capsys.readouterr()
    (tmp_path / "reference" / "settings.md").write_text("# Settings\n", encoding="utf-8")
    assert make_reference.main(["--check"]) == 1
    assert capsys.readouterr().out == (
        "docs/reference/settings.md is not what the code says: run `make docs`\n"
    )


def test_every_setting_has_a_row_with_its_default() -> None:
    page = read("reference/settings.md")
    for field in dataclasses.fields(Settings):
        if field.name == "home":
            continue
        words = {"()": "none", "": "none", "True": "`true`", "False": "`false`"}
        default = words.get(str(field.default), f"`{field.default}`")
        row = rf"\| `{field.name}` \| [^|]+ \| {re.escape(default)} \|"
        found = re.search(rf"{row}[^|]*\|[^|]*\| (.+) \|", page)
        assert found, field.name
        assert len(found[1]) > 10, f"{field.name} is in the table, and nothing says what it means"


def test_every_command_and_option_has_its_row() -> None:
    page = read("reference/cli.md")

    def look(words: str, command: Any) -> None:
        section = re.search(rf"^##+ `{words}[` ].*?(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)
        assert section, words
        for param in command.params:
            if not getattr(param, "hidden", False) and param.param_type_name == "option":
                assert all(f"`{option}`" in section[0] for option in param.opts), words
                assert param.help, f"{words} {param.opts}: write what it means"
        for name, inner in getattr(command, "commands", {}).items():
            look(f"{words} {name}", inner)

    look("sits", typer.main.get_command(app))
    assert "--parent-pid" not in page


def error_names() -> set[str]:
    """Return the names of all classes below `SitsError`, by the words of the source alone."""
    source = "".join(path.read_text("utf-8") for path in (DOCS.parent / "src").rglob("*.py"))
    pairs = re.findall(r"^class (\w+)\((\w+)\):", source, re.MULTILINE)
    known = {"SitsError"}
    while more := {name for name, base in pairs if base in known} - known:
        known |= more
    return known - {"SitsError"}


def test_every_class_of_error_has_its_row() -> None:
    page = read("reference/errors.md")
    classes = find_classes()
    assert {each.__name__ for each in classes} == error_names()
    for each in classes:
        row = rf"\| `[\w.]*{each.__name__}` \| `{each.code}` \| {each.http_status} \|"
        assert re.search(row, page), each.__name__


def test_every_code_of_an_answer_has_its_row() -> None:
    page = read("reference/errors.md")
    # Found by words instead of by syntax: what looks like a code where errors are made.
    source = DOCS.parent / "src" / "sits"
    words = "".join(path.read_text("utf-8") for path in (source / "gateway").glob("*.py"))
    told = set(re.findall(r'ApiError\(\s*\d{3},\s*"(\w+)"', words))
    words += "".join(path.read_text("utf-8") for path in (source / "runtime").rglob("*.py"))
    told |= set(re.findall(r'(?:CallerFault|RequestRefused|Failed)\((?:[\w.]+, )?"(\w+)"', words))
    assert len(told) > 25
    for code in told:
        assert f"| `{code}` |" in page, code


def test_statuses_are_those_that_callers_get() -> None:
    statuses = find_codes()
    assert statuses["invalid_api_key"] == {401}
    assert statuses["queue_full"] == statuses["overloaded"] == {429}
    assert statuses["not_found"] == {404}
    assert statuses["timeout"] == {504}


def test_a_code_without_a_meaning_stops_the_making(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {code: words for code, words in MEANINGS.items() if code != "queue_full"}
    monkeypatch.setattr("reference_pages._errors.MEANINGS", fewer)
    with pytest.raises(ValueError, match=r"\['queue_full'\]"):
        make_errors_page()


def test_a_code_that_is_no_literal_stops_the_making(tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    module = tmp_path / "gateway" / "_new.py"
    module.write_text('raise ApiError(404, "a_" + name, "words")\n')
    with pytest.raises(ValueError, match=r"_new\.py:1: .* expected a literal"):
        find_codes(tmp_path)
    module.write_text('raise ApiError(418, "teapot", "words")\nraise invalid(None, "words")\n')
    assert find_codes(tmp_path)["teapot"] == {418}
    assert find_codes(tmp_path)["invalid_value"] == {400}


@pytest.mark.parametrize("table", [TRANSITIONS, HOST_TRANSITIONS])
def test_every_transition_is_an_arrow(table: dict[tuple[Any, Any], Any]) -> None:
    page = read("explanation/lifecycles.md")
    for (state, event), then in table.items():
        assert f"    {state} --> {then}: {event}\n" in page
