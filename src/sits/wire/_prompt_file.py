"""A unit's constant prompt on its way past a process from which other tenants' are forked.

What a base host has read stays in its memory, and so in every process that is forked from it. So
an order names a file instead, which only the tenant's template reads, and removes.
"""

import contextlib
import logging
import os
import secrets

import msgspec

from sits.wire._host import UnitPrompt

_log = logging.getLogger(__name__)
_NOTHING = UnitPrompt()


def put_prompt_aside(prompt: UnitPrompt, directory: str) -> UnitPrompt:
    """Write a prompt to a file that only this user reads; return what names it.

    One that cannot be written, as on a full disk, is left out: the unit works without, and computes
    the beginnings of its prompts anew in each instance.

    Args:
        prompt: the words; without any there is no file.
        directory: made if it is not there.
    """
    if prompt == _NOTHING:
        return prompt
    path = os.path.join(directory, secrets.token_hex(12))
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(msgspec.msgpack.encode(prompt))
    except OSError as error:
        _log.warning("a prompt is not put aside in %s: %s", directory, error)
        with contextlib.suppress(OSError):
            os.unlink(path)
        return _NOTHING
    return UnitPrompt(file=path)


def take_prompt_in(prompt: UnitPrompt) -> UnitPrompt:
    """Return the words of a prompt that was put aside, and remove the file.

    Whose file is gone, or no prompt, has no words.
    """
    if not prompt.file:
        return prompt
    try:
        with open(prompt.file, "rb") as stream:
            words = msgspec.msgpack.decode(stream.read(), type=UnitPrompt)
        os.unlink(prompt.file)
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("a prompt that was put aside cannot be taken in: %s", error)
        return _NOTHING
    return words
