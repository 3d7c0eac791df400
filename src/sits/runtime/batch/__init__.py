"""One instance's requests, turned into engine steps and pieces of text.

`Batcher` decides what goes into each step and owns the requests' lives; `AnswerText` turns a
token's bytes into whole characters and finds stop strings; `prompt_tokens` renders a prompt.
Nothing here waits, and nothing knows of sockets.
"""

from sits.runtime.batch._batcher import Batcher, RequestRefused
from sits.runtime.batch._prompt import compile_template, prompt_tokens
from sits.runtime.batch._text import AnswerText

__all__ = ["AnswerText", "Batcher", "RequestRefused", "compile_template", "prompt_tokens"]
