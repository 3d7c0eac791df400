"""Slips that are met in the wild and whose meaning is plain: mended, each with a note.

Only one so far: the `@` before a version was lost (often by tools that take it for an e-mail
address). A model's version must follow its name directly (`bert-base-uncasedv2.4.1`): names
that end in `-v0.1` are real ones on Hugging Face and stay as they are.
"""

import re
from typing import Any

_MODEL = re.compile(
    r"(?:huggingface://)?(?P<name>(?:[\w.-]+/)?[\w.-]*[A-Za-z0-9])(?P<version>v\d+(?:\.\d+)+)",
    re.ASCII,
)
_ADAPTER = re.compile(
    r"(?:dataflow://)?(?P<name>[\w.-]*[A-Za-z0-9])-(?P<version>v\d+(?:\.\d+)*)", re.ASCII
)


def repair(values: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the values with known slips mended, and a note for each.

    The given mapping is not changed.
    """
    mended = dict(values)
    notes: list[str] = []
    for key, scheme, pattern in (
        ("model", "huggingface", _MODEL),
        ("adapter", "dataflow", _ADAPTER),
    ):
        text = values.get(key)
        found = pattern.fullmatch(text) if isinstance(text, str) else None
        if found:
            mended[key] = f"{scheme}://{found['name']}@{found['version']}"
            notes.append(f"{key}: '{text}' was read as '{mended[key]}'; write it so")
    return mended, tuple(notes)
