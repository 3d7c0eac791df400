"""What the documents say is so."""

import re
from pathlib import Path

import pytest
import typer.main

from sits.cli._app import app
from sits.spec import load_unit

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md"])


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_units_in_documents_load(document: Path) -> None:
    for text in blocks(document, "yaml"):
        assert load_unit(text, document.name).notes == ()


def test_the_readmes_unit_has_ten_lines_and_is_the_example() -> None:
    (unit,) = blocks(ROOT / "README.md", "yaml")
    assert len(unit.strip().splitlines()) == 10
    assert unit == (ROOT / "examples" / "chat.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.yaml")), ids=lambda p: p.name)
def test_examples_load(example: Path) -> None:
    load_unit(example.read_text(encoding="utf-8"), example.name)


def test_commands_in_documents_are_there() -> None:
    """Each `sits …` of a console block names a command, and options that it has."""
    root = typer.main.get_command(app)
    for document in DOCUMENTS:
        for line in re.findall(
            r"^\$ (sits .*)$", "\n".join(blocks(document, "console")), re.MULTILINE
        ):
            command, words = root, line.split()[1:]
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
            known = {option for p in command.params for option in p.opts} | {"--version", "--help"}
            used = {w for w in words if re.fullmatch(r"--?[a-z][a-z-]*", w)}
            assert used <= known, f"{document.name}: {line}"
            assert command is not root or used, f"{document.name}: {line}"
