"""What people write who do not know the commands yet, and what they are told."""

import re
from collections.abc import Iterator

import pytest
import typer.main
from typer.testing import CliRunner, Result

from sits.cli._app import app

NARROW = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}


def sits(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env=NARROW)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("iu ls", "sits iu list"),
        ("iu apply -f x.yaml", "sits iu deploy"),
        ("iu describe x", "sits iu get"),
        ("iu rm x", "sits iu delete"),
        ("iu delet x", "sits iu delete"),
        ("iu chat x", "sits chat"),
        ("iu pull x", "sits models pull"),
        ("logs x", "sits iu logs"),
        ("deploy -f x.yaml", "sits iu deploy"),
        ("apply -f x.yaml", "sits iu deploy"),
        ("rollback x", "sits iu rollback"),
        ("doctr", "sits doctor"),
        ("start", "sits up"),
        ("stop", "sits down"),
        ("units", "sits iu"),
        ("models ls", "sits models list"),
        ("models delete x", "sits models rm"),
        ("models download x", "sits models pull"),
        ("list", "sits iu list' or 'sits models list"),
    ],
)
def test_a_word_that_is_no_command_is_answered_with_the_one_that_is_meant(
    words: str, meant: str
) -> None:
    result = sits(*words.split())
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'?" in result.stderr


def test_a_word_that_is_like_none_is_only_refused() -> None:
    assert "No such command 'qqqq'.\n" in sits("qqqq").stderr


@pytest.mark.parametrize("group", [[], ["iu"], ["models"]], ids=" ".join)
def test_help_at_80_columns_cuts_nothing(group: list[str]) -> None:
    text = sits(*group, "--help").stdout
    assert "..." not in text.partition("Commands:")[2]
    assert max(map(len, text.splitlines())) <= 80


def commands() -> Iterator[str]:
    root = typer.main.get_command(app)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        yield from (f"{name} {inner}" for inner in getattr(command, "commands", ()))
        if not hasattr(command, "commands"):
            yield name


@pytest.mark.parametrize("command", list(commands()))
def test_arguments_are_written_as_in_the_documents(command: str) -> None:
    usage = sits(*command.split(), "--help").stdout.splitlines()[0]
    arguments = usage.partition("[OPTIONS]")[2].split()
    assert all(re.fullmatch(r"\[?[A-Z]+\]?", argument) for argument in arguments), usage


def test_a_units_argument_is_its_name() -> None:
    assert " iu get [OPTIONS] NAME\n" in sits("iu", "get", "--help").stdout
    assert " chat [OPTIONS] NAME [MESSAGE]" in sits("chat", "--help").stdout
    assert " pull [OPTIONS] REFERENCE" in sits("models", "pull", "--help").stdout


@pytest.mark.parametrize(
    "words",
    [
        "iu deploy --file x.yaml --wait -5",
        "iu rollback x --wait -5",
        "iu wait x --timeout -1",
    ],
)
def test_a_time_below_zero_is_refused(words: str) -> None:
    result = sits(*words.split())
    assert result.exit_code == 2
    assert "is not in the range x>=0" in result.stderr


@pytest.mark.parametrize("condition", ["ready=no", "Ready=", "=True", "Ready=true"])
def test_a_wait_for_what_cannot_be_says_what_can(condition: str) -> None:
    result = sits("iu", "wait", "x", "--for", condition)
    assert result.exit_code == 2
    assert "True, False, Unknown" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [("", "one of two is needed"), ("x --file x.yaml", "are both given; give one of them")],
)
def test_a_diff_needs_one_thing_to_compare(words: str, said: str) -> None:
    result = sits("iu", "diff", *words.split())
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
