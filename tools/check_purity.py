"""Finds impure names in `spec` and `policy` that import-linter cannot see.

import-linter knows the top names of other libraries, and holds most of the rule (the contract
`pure` in pyproject.toml). This looks at what is left: modules of which a part is pure, and
built-in functions. What it is not: a proof.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PURE_PACKAGES = ("src/sits/spec", "src/sits/policy")
PURE_PARTS = {
    "pathlib": {"PurePath", "PurePosixPath", "PureWindowsPath"},
    "urllib": {"parse"},
}
IMPURE_BUILTINS = {"breakpoint", "input", "open", "print"}


def find_impure(path: str, text: str) -> list[str]:
    """Return a message for every impure name in one Python source.

    Args:
        path: how the file is named in messages.
        text: the source.

    Raises:
        SyntaxError: the source does not parse.
    """
    return [
        f"{path}:{line}: {name} is I/O; spec and policy are pure: "
        "take the value as a parameter, and let the caller get it"
        for line, name in _impure_names(ast.parse(text, filename=path))
    ]


def _impure_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in IMPURE_BUILTINS:
                yield node.lineno, f"{node.func.id}()"
            continue
        else:
            continue
        yield from ((node.lineno, name) for name in names if not _is_pure(name))


def _is_pure(name: str) -> bool:
    top, _, rest = name.partition(".")
    return top not in PURE_PARTS or rest.partition(".")[0] in PURE_PARTS[top]


def main() -> int:
    """Print what is wrong; return the exit status."""
    messages = []
    for package in PURE_PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            messages += find_impure(name, path.read_text(encoding="utf-8"))
    print(*messages, f"Purity: {len(messages)} impure names.", sep="\n")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
