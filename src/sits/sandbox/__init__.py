"""Running what is not trusted; now: templates, of units and of models.

    render_prompt()   a unit's prompt template and a caller's inputs -> text
    render_chat()     a model's chat template and a conversation -> text
    check_prompt()    whether a unit's prompt template is one
    template_head()   the text that every rendering of a prompt template begins with
    Limits            how much of everything a render may take
    SandboxError      what a template did or asked for, with its line

A template is a program that somebody else wrote. It runs in Jinja2's immutable sandbox, with
bounded output, time and memory; the caller is a synchronous, single-threaded worker that
belongs to one tenant. Landlock, seccomp and containers come here later.
"""

from sits.sandbox._errors import SandboxError
from sits.sandbox._limits import Limits
from sits.sandbox._render import check_prompt, render_chat, render_prompt, template_head

__all__ = [
    "Limits",
    "SandboxError",
    "check_prompt",
    "render_chat",
    "render_prompt",
    "template_head",
]
