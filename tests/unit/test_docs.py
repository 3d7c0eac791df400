"""What the documents say is so."""

import re
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main
from starlette.routing import Route

from sits.cli._app import app
from sits.gateway._endpoints import Listing, make_routes
from sits.gateway._exchange import Exchange
from sits.gateway._metrics import Metrics
from sits.spec import load_unit
from sits.wire import Sampling

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


def test_every_route_of_the_gateway_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    nothing = cast(Any, None)
    routes = make_routes(Listing(nothing, nothing), nothing, nothing).routes
    assert len(routes) > 7
    for route in routes:
        assert isinstance(route, Route)
        path = re.sub(r"\{name(:path)?\}", "NAME", route.path).replace("{path:path}", "…")
        methods = (route.methods or set()) - {"HEAD"}
        assert f"`{' '.join([*methods, path])}`" in page, f"{methods} {path}"


def test_every_metric_is_documented() -> None:
    page = (ROOT / "docs" / "howto" / "watch.md").read_text(encoding="utf-8")
    metrics = Metrics(lambda _unit: True, tuple)
    metrics.note(Exchange("id", "POST", "/", 1.0, tenant="t", unit="chat"))
    body, _ = metrics.render("t", "")
    found = re.findall(r"^# TYPE (\S+) (\w+)$", body.decode(), re.MULTILINE)
    assert len(found) > 7
    for name, kind in found:
        assert f"| `{name}` | {kind} | " in page, name


def test_the_defaults_of_sampling_are_those_that_are_documented() -> None:
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    (words,) = re.findall(r"Sampling defaults to (.*)\. What", page)
    sampling = Sampling()
    assert words == (
        f"temperature {sampling.temperature}, top-p {sampling.top_p}, min-p {sampling.min_p}"
    )


def test_every_decision_is_listed() -> None:
    decisions = ROOT / "docs" / "decisions"
    listed = (decisions / "README.md").read_text(encoding="utf-8")
    records = sorted(decisions.glob("[0-9]*.md"))
    assert len({record.name[:4] for record in records}) == len(records)
    for record in records:
        assert f"| [{record.name[:4]}]({record.name}) |" in listed, record.name
        text = record.read_text(encoding="utf-8")
        for part in ("Status: ", "**Context.**", "**Decision.**", "**Consequences.**"):
            assert part in text, f"{record.name}: {part}"
