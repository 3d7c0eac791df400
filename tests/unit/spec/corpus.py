"""The corpus of units: files that load, and texts that are refused, each with its message."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CORPUS = Path(__file__).parents[2] / "corpus" / "units"
GOOD = sorted((CORPUS / "good").glob("*.yaml"))

_BEFORE = {
    "unit": "",
    "rest": "name: a\nmodel: builtin://x\n",
    "remote": "name: a\nmodel: openai://gpt-4o\n",
}


@dataclass(frozen=True)
class Bad:
    """A text that is refused, and what is said of it."""

    text: str
    says: str


def bad_units() -> Iterator[Bad]:
    for case in _cases("units.yaml"):
        says = case.pop("says")
        ((kind, text),) = case.items()
        yield Bad(
            f"{_BEFORE[kind]}{text}\n" if _BEFORE[kind] and text else _BEFORE[kind] + text, says
        )


def bad_references() -> Iterator[Bad]:
    for case in _cases("references.yaml"):
        yield Bad(case["model"], case["says"])


def _cases(file: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = yaml.safe_load((CORPUS / "bad" / file).read_text("utf-8"))
    return cases
