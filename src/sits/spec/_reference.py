"""References to models: text that names where a model comes from.

    builtin://NAME
    file:///ABSOLUTE/PATH.gguf
    huggingface://[ORG/]NAME[@REVISION][#FILE.gguf]
    openai://NAME                 what a model is called at endpoints elsewhere (`engine: openai`)

Invariant: `str(parse_model_reference(text)) == text` for every text that parses.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from sits.spec._reference_words import (
    FILE_HINT,
    NOWHERE,
    SERVERS,
    Surroundings,
    can_read,
    nearest_reference,
    relative_path,
    server_of,
)

MAX_REFERENCE_CHARS = 1000


class ModelScheme(StrEnum):
    """Where a model comes from."""

    BUILTIN = "builtin"
    FILE = "file"
    HUGGINGFACE = "huggingface"
    OPENAI = "openai"


FORMS = (
    "builtin://NAME, file:///PATH.gguf, huggingface://[ORG/]NAME[@REVISION][#FILE.gguf] or "
    "openai://NAME"
)
_OPENAI = re.compile(r"[A-Za-z0-9][\w./:-]{0,190}", re.ASCII)
_BUILTIN = re.compile(r"[a-z0-9][a-z0-9.-]{0,95}")
_HUGGINGFACE = re.compile(
    r"(?:(?P<org>[A-Za-z0-9][\w.-]{0,95})/)?(?P<name>[A-Za-z0-9][\w.-]{0,95})"
    r"(?:@(?P<revision>[A-Za-z0-9][\w./-]{0,127}))?"
    r"(?:#(?P<file>[\w./-]{1,240}\.gguf))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Reference:
    """Something that is kept elsewhere, by name.

    Attributes:
        text: the reference as it was written.
        name: its name or the repository's, or the file's absolute path.
        org: the organisation on Hugging Face, if one is named.
        revision: its version, or the repository's branch, tag or commit, if one is named.
        file: the file inside the repository, if one is named.
    """

    text: str
    scheme: StrEnum
    name: str
    org: str | None = None
    revision: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ModelReference(Reference):
    """One model, by name: see `Reference`."""

    scheme: ModelScheme


def parse_model_reference(text: str, around: Surroundings = NOWHERE) -> ModelReference:
    """Read a reference.

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
        if near is not None and near != text and can_read(_parse, near):
            raise ValueError(f"{error}: write {near}") from error
        raise ValueError(f"{error}{_how(text, str(error))}") from error


def _how(text: str, problem: str) -> str:
    """Say how to write what a text means, where the reference itself cannot be known."""
    if relative_path(text):
        return "" if "absolute path" in problem else FILE_HINT
    if server := server_of(text):
        name, model = server
        return (
            f"; {name} is a server of its own: write openai://{model or 'NAME'}, and engine: "
            f"{{kind: openai, endpoints: [{SERVERS[name]}]}}"
        )
    return ""


def _parse(text: str) -> ModelReference:
    if len(text) > MAX_REFERENCE_CHARS:
        raise ValueError(f"is too long; expected at most {MAX_REFERENCE_CHARS} characters")
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ValueError(f"has no scheme; expected {FORMS}")
    match scheme:
        case ModelScheme.BUILTIN:
            if not _BUILTIN.fullmatch(rest):
                raise ValueError(
                    "is not the name of a builtin model; expected builtin://NAME of lower-case "
                    "letters, digits, '.' and '-'"
                )
            return ModelReference(text, ModelScheme.BUILTIN, rest)
        case ModelScheme.FILE:
            return ModelReference(text, ModelScheme.FILE, _file_path(rest))
        case ModelScheme.HUGGINGFACE:
            return _huggingface(text, rest)
        case ModelScheme.OPENAI:
            if not _OPENAI.fullmatch(rest):
                raise ValueError("is malformed; expected openai://NAME, such as openai://gpt-4o")
            return ModelReference(text, ModelScheme.OPENAI, rest)
        case _:
            raise ValueError(f"has the unknown scheme {scheme[:40]!r}; expected {FORMS}")


def _file_path(rest: str) -> str:
    path = unquote(rest)
    if not path.startswith("/") or "\0" in path:
        raise ValueError("is not an absolute path; expected file:///PATH.gguf (three slashes)")
    if not path.endswith(".gguf"):
        raise ValueError("does not name a GGUF file; expected file:///PATH.gguf")
    return path


def _huggingface(text: str, rest: str) -> ModelReference:
    found = _HUGGINGFACE.fullmatch(rest)
    if not found or ".." in rest:
        raise ValueError("is malformed; expected huggingface://[ORG/]NAME[@REVISION][#FILE.gguf]")
    return ModelReference(
        text,
        ModelScheme.HUGGINGFACE,
        found["name"],
        org=found["org"],
        revision=found["revision"],
        file=found["file"],
    )
