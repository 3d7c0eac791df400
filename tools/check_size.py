"""Holds files, functions and parameter lists to a size that a reader can keep in mind.

Invariant: `LIMITS` and `EXCEPTIONS` below are the only place where a size is allowed; an
exception that is no longer needed fails the check, so that the list only holds what is true.
Lines are counted as they stand, docstrings and comments included; `self` and `cls` are not
counted as parameters, keyword-only ones, `*args` and `**kwargs` are.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "tools")

# Each exception: "path" or "path::function" (with its classes, as in `Pool.decode`): the reason.
EXCEPTIONS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Limits:
    """The largest sizes that pass."""

    file_lines: int = 500
    function_lines: int = 60
    parameters: int = 7


LIMITS = Limits()


@dataclass(frozen=True)
class Offence:
    """One thing that is too large; `key` is what an exception for it would be named."""

    key: str
    line: int
    message: str

    def __str__(self) -> str:
        """Render as `path:line: message`, which editors and terminals make a link of."""
        return f"{self.key.partition('::')[0]}:{self.line}: {self.message}"


def find_offences(path: str, text: str, limits: Limits = LIMITS) -> list[Offence]:
    """Return what is too large in one Python source, in the order of its lines.

    Args:
        path: how the file is named in messages and exceptions.
        text: the source.
        limits: the largest sizes that pass.

    Raises:
        SyntaxError: the source does not parse.
    """
    found = []
    lines = len(text.splitlines())
    if lines > limits.file_lines:
        found.append(
            Offence(
                path,
                limits.file_lines + 1,
                f"file of {lines} lines, at most {limits.file_lines}: "
                "move one of its concerns to a module of its own",
            )
        )
    for name, node in _functions(ast.parse(text, filename=path), ""):
        found += _function_offences(f"{path}::{name}", node, limits)
    return found


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(parent: ast.AST, prefix: str) -> Iterator[tuple[str, _Function]]:
    for node in ast.iter_child_nodes(parent):
        name = prefix
        if isinstance(node, _Function | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if not isinstance(node, ast.ClassDef):
                yield name, node
            name += "."
        yield from _functions(node, name)


def _function_offences(key: str, node: _Function, limits: Limits) -> Iterator[Offence]:
    name = key.partition("::")[2]
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > limits.function_lines:
        yield Offence(
            key,
            node.lineno,
            f"{name} has {lines} lines, at most {limits.function_lines}: "
            "name a step of it and make that a function",
        )
    parameters = _parameter_count(node.args)
    if parameters > limits.parameters:
        yield Offence(
            key,
            node.lineno,
            f"{name} has {parameters} parameters, at most {limits.parameters}: "
            "pass a frozen dataclass",
        )


def _parameter_count(args: ast.arguments) -> int:
    plain = [*args.posonlyargs, *args.args]
    bound = 1 if plain and plain[0].arg in {"self", "cls"} else 0
    starred = sum(1 for arg in (args.vararg, args.kwarg) if arg is not None)
    return len(plain) - bound + len(args.kwonlyargs) + starred


def apply_exceptions(
    offences: Iterable[Offence], exceptions: Mapping[str, str]
) -> tuple[list[Offence], list[str]]:
    """Split off the offences that are allowed.

    Returns:
        What is left, and the exceptions that nothing needs.
    """
    offences = list(offences)
    needed = {offence.key for offence in offences}
    left = [offence for offence in offences if offence.key not in exceptions]
    return left, [key for key in exceptions if key not in needed]


def check_tree(root: Path, exceptions: Mapping[str, str] = EXCEPTIONS) -> list[str]:
    """Return one message for everything that is wrong under `root`'s source folders."""
    offences = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            offences += find_offences(name, path.read_text(encoding="utf-8"))
    left, unneeded = apply_exceptions(offences, exceptions)
    messages = [str(offence) for offence in left]
    messages += [
        f"tools/check_size.py: the exception for {key} is not needed: remove it" for key in unneeded
    ]
    return messages


def main() -> int:
    """Print what is wrong; return the exit status."""
    messages = check_tree(ROOT)
    for message in messages:
        print(message)
    print(f"Sizes: {len(messages)} too large." if messages else "Sizes: all within the limits.")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
