"""The reference that was probably meant by a text that is none.

What a suggestion needs to know beside the text (where the unit's file lies, which models come
with the platform, which engine the unit has) is given in `Surroundings`: without it, what would
only be guessed is not suggested.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sits.spec._words import nearest

_SCHEMES = {
    "builtin": "builtin",
    "file": "file",
    "path": "file",
    "huggingface": "huggingface",
    "hf": "huggingface",
    "hub": "huggingface",
    "openai": "openai",
    "adapter": "adapter",
    "lora": "adapter",
}
# Servers of models, by the names that people give them, and where each listens by default.
SERVERS: Mapping[str, str] = {
    "ollama": "http://127.0.0.1:11434/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "sglang": "http://127.0.0.1:30000/v1",
    "tgi": "http://127.0.0.1:8080/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
}
FILE_HINT = "; of a file, give the absolute path: file:///ABSOLUTE/PATH.gguf"

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w.-]{0,30})(?P<colon>:/*)(?P<rest>.*)", re.ASCII)
_PAGE = re.compile(
    r"(https?://)?(www\.)?(huggingface\.co|hf\.co)/(?P<name>[\w.-]+/[\w.-]+)"
    r"(/(resolve|blob|tree)/(?P<revision>[\w.-]+)(/(?P<file>[\w./-]+\.gguf))?)?/?(\?.*)?",
    re.ASCII,
)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w.-]+)?(#[\w./-]+\.gguf)?", re.ASCII)
_RELATIVE_FILE = re.compile(r"(file:(//)?)?(?!/)(?P<path>[^:#]*\.gguf|\.{1,2}/[^:]*)")
_BARE = re.compile(r"[A-Za-z0-9][\w.:-]{0,95}", re.ASCII)


@dataclass(frozen=True)
class Surroundings:
    """What is around a reference.

    Attributes:
        directory: the absolute path of the directory in which the unit's file lies, if it does.
        builtins: gives the names of the models that come with the platform; asked on errors only.
        engine: the kind of the unit's engine, if it says one.
    """

    directory: str | None = None
    builtins: Callable[[], Collection[str]] = tuple
    engine: str = ""


NOWHERE = Surroundings()


def nearest_reference(text: str, around: Surroundings = NOWHERE) -> str | None:
    """Return what a reference should probably have been; it may still be none."""
    text = text.strip()
    page = _PAGE.fullmatch(text)
    if page:
        revision = f"@{page['revision']}" if page["revision"] else ""
        file = f"#{page['file']}" if page["file"] else ""
        return f"huggingface://{page['name']}{revision}{file}"
    if text.startswith("/"):
        return f"file://{text}"
    if relative := relative_path(text):
        return _beside(relative, around.directory)
    found = _SCHEME.fullmatch(text)
    near = nearest(found["scheme"], _SCHEMES) if found else None
    scheme = _SCHEMES[near] if near else None
    match scheme:
        case None:
            return _bare(text, around)
        case "file":
            return f"file:///{found['rest']}" if found else None
        case "builtin" | "adapter":
            return f"{scheme}://{found['rest'].strip().casefold()}" if found else None
        case _:
            return f"{scheme}://{found['rest'].strip().strip('/')}" if found else None


def relative_path(text: str) -> str | None:
    """Return the path that a text names, where it names a file by a path that is not absolute."""
    found = _RELATIVE_FILE.fullmatch(text.strip())
    return found["path"] if found else None


def can_read(parse: Callable[[str], object], text: str) -> bool:
    """Return whether a suggestion is one that can be read: others are not made."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def server_of(text: str) -> tuple[str, str] | None:
    """Return the server of models that a scheme or a kind of engine names, and what it is to run.

    None: it names none.
    """
    name, _, model = text.strip().partition(":")
    folded = re.sub(r"[-_. ]", "", name[:32]).casefold()
    return (folded, model.strip("/")) if folded in SERVERS else None


def _beside(path: str, directory: str | None) -> str | None:
    if directory is None or path.startswith("~"):
        return None
    return f"file://{posixpath.normpath(posixpath.join(directory, path)).replace('%', '%25')}"


def _bare(text: str, around: Surroundings) -> str | None:
    """Return what a name without a scheme means."""
    is_repository = _REPOSITORY.fullmatch(text) is not None
    is_bare = _BARE.fullmatch(text) is not None
    if around.engine == "openai" and (is_repository or is_bare):
        return f"openai://{text}"
    if is_repository:
        return f"huggingface://{text}"
    if not is_bare:
        return None
    known = around.builtins()
    name = text.casefold()
    begun = [each for each in known if each.startswith(name)]
    meant = begun[0] if len(begun) == 1 else nearest(name, known, cutoff=0.8)
    return f"builtin://{meant}" if meant else None
