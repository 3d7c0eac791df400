"""Whatever a template says, the result is a text or a `SandboxError`."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from sits.sandbox import SandboxError, render_chat, render_prompt

WORDS = [
    "{{",
    "{%",
    "%}",
    "}}",
    "{#",
    "#}",
    "x",
    "if",
    "for",
    "in",
    "end",
    "else",
    "set",
    "namespace",
    "(",
    ")",
    "[",
    "]",
    ".",
    "|",
    "~",
    "+",
    "-",
    "*",
    "**",
    "%",
    "''",
    "'a'",
    "9",
    "1e9",
    "range",
    "format",
    "join",
    "tojson",
    "replace",
    "loop.index",
    "__class__",
    "is",
    "not",
    "none",
    "x.y",
    "x[0]",
    "macro",
    "call",
    "raise_exception('no')",
    "break",
    "endif",
    "endfor",
]
TEMPLATES = st.lists(st.sampled_from([*WORDS, "\n", " "])).map(" ".join) | st.text()


@given(TEMPLATES)
def test_nothing_but_text_or_our_error_comes_out(template: str) -> None:
    with contextlib.suppress(SandboxError):
        assert isinstance(render_prompt(template, {"x": [1, "a"]}), str)
    with contextlib.suppress(SandboxError):
        assert isinstance(render_chat(template, [{"role": "user", "content": "x"}]), str)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_input_is_never_a_template(text: str) -> None:
    assert render_prompt("{{ x }}", {"x": text}) == text
