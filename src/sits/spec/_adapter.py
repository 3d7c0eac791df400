"""References to LoRA adapters: text that names where an adapter's weights come from.

    adapter://NAME[@VERSION]      one that the platform has, such as one that it has trained
    file:///ABSOLUTE/PATH.gguf
    huggingface://[ORG/]NAME[@REVISION][#FILE.gguf]

Invariant: `str(parse_adapter_reference(text)) == text` for every text that parses.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from sits.spec._reference import Reference, parse_model_reference
from sits.spec._reference_words import (
    FILE_HINT,
    NOWHERE,
    Surroundings,
    can_read,
    nearest_reference,
    relative_path,
)


class AdapterScheme(StrEnum):
    """Where an adapter comes from."""

    ADAPTER = "adapter"
    FILE = "file"
    HUGGINGFACE = "huggingface"


ADAPTER_FORMS = (
    "adapter://NAME[@VERSION], file:///PATH.gguf or huggingface://[ORG/]NAME[@REVISION][#FILE.gguf]"
)
_ADAPTER = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9.-]{0,95})(?:@(?P<version>[A-Za-z0-9][\w.-]{0,63}))?", re.ASCII
)


@dataclass(frozen=True)
class AdapterReference(Reference):
    """One adapter, by name: see `Reference`."""

    scheme: AdapterScheme


def parse_adapter_reference(text: str, around: Surroundings = NOWHERE) -> AdapterReference:
    """Read a reference to an adapter.

    Args:
        text: the reference.
        around: makes what an error suggests right.

    Raises:
        ValueError: it is of none of the known forms; the message says what was expected.
    """
    try:
        return _parse(text)
    except ValueError as error:
        near = nearest_reference(text, around)
        if ": write " not in str(error) and near and near != text and can_read(_parse, near):
            raise ValueError(f"{error}: write {near}") from error
        is_file = relative_path(text) and "absolute path" not in str(error)
        raise ValueError(f"{error}{FILE_HINT if is_file else ''}") from error


def _parse(text: str) -> AdapterReference:
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ValueError(f"has no scheme; expected {ADAPTER_FORMS}")
    match scheme:
        case AdapterScheme.ADAPTER:
            found = _ADAPTER.fullmatch(rest)
            if not found:
                raise ValueError(
                    "is malformed; expected adapter://NAME[@VERSION] of lower-case letters, "
                    "digits, '.' and '-', such as adapter://support-tone@v2"
                )
            return AdapterReference(
                text, AdapterScheme.ADAPTER, found["name"], revision=found["version"]
            )
        case AdapterScheme.FILE | AdapterScheme.HUGGINGFACE:
            model = parse_model_reference(text)
            return AdapterReference(
                text, AdapterScheme(scheme), model.name, model.org, model.revision, model.file
            )
        case _:
            raise ValueError(f"has the unknown scheme {scheme[:40]!r}; expected {ADAPTER_FORMS}")
