"""Markdown's tables, and the mark that says where a document comes from."""

from collections.abc import Iterable, Sequence

MARK = "<!-- Made from the code by tools/make_reference.py: change it there. -->"


def make_table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, with an empty line before it."""
    head = f"\n{make_row(columns)}|{'---|' * len(columns)}\n"
    return head + "".join(map(make_row, rows))


def make_row(cells: Iterable[str]) -> str:
    """Return one row of a table, whatever its cells hold."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def first_paragraph(docstring: str | None) -> str:
    """Return what a docstring says first, as one line."""
    return " ".join((docstring or "").strip().partition("\n\n")[0].split())
