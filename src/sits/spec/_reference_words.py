"""The reference that was probably meant by a text that is none."""

import re

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
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w.-]{0,30})(?P<colon>:/*)(?P<rest>.*)", re.ASCII)
_PAGE = re.compile(
    r"(https?://)?(www\.)?(huggingface\.co|hf\.co)/(?P<name>[\w.-]+/[\w.-]+)"
    r"(/(resolve|blob|tree)/(?P<revision>[\w.-]+)(/(?P<file>[\w./-]+\.gguf))?)?/?(\?.*)?",
    re.ASCII,
)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w.-]+)?(#[\w./-]+\.gguf)?", re.ASCII)


def nearest_reference(text: str) -> str | None:
    """Return what a reference should probably have been; it may still be none."""
    text = text.strip()
    page = _PAGE.fullmatch(text)
    if page:
        revision = f"@{page['revision']}" if page["revision"] else ""
        file = f"#{page['file']}" if page["file"] else ""
        return f"huggingface://{page['name']}{revision}{file}"
    if text.startswith("/"):
        return f"file://{text}"
    found = _SCHEME.fullmatch(text)
    if not found:
        return f"huggingface://{text}" if _REPOSITORY.fullmatch(text) else None
    near = nearest(found["scheme"], _SCHEMES)
    scheme = _SCHEMES[near] if near else None
    match scheme:
        case None:
            return None
        case "file":
            return f"file:///{found['rest']}"
        case "builtin" | "adapter":
            return f"{scheme}://{found['rest'].strip().casefold()}"
        case _:
            return f"{scheme}://{found['rest'].strip().strip('/')}"
