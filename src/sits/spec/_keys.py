"""What looks like a key: it is in no unit, and in no message, since these go to logs.

Invariant: what is taken for a key is no reason to show it; a name that is taken for one by
mistake is only less well explained.
"""

import re

HOW_TO_GIVE = (
    "put the key into $SITS_HOME/secrets/TENANT/NAME or SITS_SECRET_NAME, and give the endpoint "
    "`secret: NAME`"
)

# What keys begin with, at those who give them out.
_BEGINNINGS = ("sk-", "sk_", "rk_", "pk_", "hf_", "gsk_", "xai-", "ghp_", "glpat-", "AIza", "AKIA")
_KEY = re.compile(rf"\b({'|'.join(map(re.escape, _BEGINNINGS))})[\w-]{{12,}}", re.ASCII)
# Not `adapter://NAME@VERSION`: there, what stands before the `@` is no user.
_PASSWORD = re.compile(r"(?<=https://)[^\s/@]*@|(?<=http://)[^\s/@]*@|(?<=://)[^\s/@:]*:[^\s/@]*@")
_HEX = re.compile(r"[0-9a-f-]{32,}", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9-]+")
# No name that a person gives is as long; keys are longer.
_ODD_NAME_CHARS = 20
_MIXED_CHARS = 12
_NAME_CHARS = 40


def looks_like_key(text: str) -> bool:
    """Return whether a text that should name a secret is probably the secret itself."""
    is_mixed = all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return (
        text.casefold().startswith(tuple(map(str.casefold, _BEGINNINGS)))
        or len(text) > _NAME_CHARS
        or _HEX.fullmatch(text) is not None
        or (is_mixed and len(text) >= _MIXED_CHARS)
        or (len(text) >= _ODD_NAME_CHARS and not _NAME.fullmatch(text))
    )


def without_keys(text: str) -> str:
    """Return a text without the keys and the passwords that are plainly in it."""
    return _KEY.sub(r"\1...", _PASSWORD.sub("...@", text))
