import pytest

from check_purity import find_impure


@pytest.mark.parametrize(
    "source",
    [
        "from pathlib import PurePosixPath",
        "import urllib.parse",
        "from urllib.parse import urlsplit",
        "import re",
        "def load(open): ...",
    ],
)
def test_accepts_pure_names(source: str) -> None:
    assert find_impure("m.py", source) == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from pathlib import Path", "pathlib.Path"),
        ("import pathlib", "pathlib"),
        ("from urllib import request", "urllib.request"),
        ("import urllib.request", "urllib.request"),
        ("def f(p):\n    return open(p)", "open()"),
        ("print(1)", "print()"),
    ],
)
def test_reports_impure_names(source: str, name: str) -> None:
    (message,) = find_impure("m.py", source)

    assert f"{name} is I/O" in message
    assert message.startswith("m.py:")
