"""The platform's settings: their types, defaults, ranges and meanings, from their dataclass."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

from reference_pages._markdown import MARK, make_table
from sits.node import Settings
from sits.node._settings import RANGES

_HEAD = f"""# Settings

{MARK}

In rising order: the default, `sits.toml` in the home directory, the environment, flags of
`sits up`. `idle_s = 30` in the file is `SITS_IDLE_S=30` in the environment; a list is written with
commas there: `SITS_ALLOWED_HOSTS=a.example,b.example`. A name that is not known, or a value that
does not fit, stops the start with a message.
"""

_REST = """
## The environment alone

| variable | meaning |
|---|---|
| `SITS_HOME` | the home directory; default: `sits` in this user's data directory |
| `SITS_URL`, `SITS_API_KEY` | for the commands: a platform elsewhere, and a key of it |
| `SITS_SECRET_NAME` | the secret `name`, for endpoints elsewhere; a file \
`$SITS_HOME/secrets/default/name` comes first |
| `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HTTPS_PROXY` | \
[the model hub](../howto/models.md) |
| `SITS_CACHE` | for `make`: where the built engine is kept; default: this user's cache directory |
"""

_TYPES = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}


def make_settings_page() -> str:
    """Return the whole document."""
    columns = ("setting", "type", "default", "from", "to", "meaning")
    return _HEAD + make_table(columns, _rows()) + _REST


def _rows() -> Iterator[tuple[str, ...]]:
    types, meanings = get_type_hints(Settings), _meanings()
    ranges = {name: (least, most) for name, least, most in RANGES}
    for field in dataclasses.fields(Settings):
        if field.name == "home":  # the directory in which the file of settings lies
            continue
        limits = [_number(limit) for limit in ranges.get(field.name, ())] or ["", ""]
        kind = _TYPES.get(types[field.name], "list of texts")
        yield f"`{field.name}`", kind, _default(field.default), *limits, meanings[field.name]


def _meanings() -> dict[str, str]:
    """Return what the docstring says of each field, as one line."""
    attributes = inspect.cleandoc(Settings.__doc__ or "").partition("Attributes:\n")[2]
    found = re.split(r"^    (\w+): ", attributes, flags=re.MULTILINE)[1:]
    return {
        name: " ".join(words.split()).rstrip(".")
        for name, words in zip(found[::2], found[1::2], strict=True)
    }


def _default(value: Any) -> str:
    if value in ("", ()):
        return "none"
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
