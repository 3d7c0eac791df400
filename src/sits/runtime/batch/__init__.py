"""One instance's requests, turned into engine steps and pieces of text.

`Batcher` decides what goes into each step and owns the requests' lives; `EmbeddingBatcher` does
the same for models that make vectors; `AnswerText` turns a token's bytes into whole characters
and finds stop strings; `prompt_tokens` renders a prompt.
Nothing here waits, and nothing knows
of sockets.
"""

from sits.runtime.batch._batcher import Batcher
from sits.runtime.batch._embedding import EmbeddingBatcher
from sits.runtime.batch._prompt import compile_template, prompt_messages, prompt_tokens
from sits.runtime.batch._refused import RequestRefused
from sits.runtime.batch._text import AnswerText

__all__ = [
    "AnswerText",
    "Batcher",
    "EmbeddingBatcher",
    "RequestRefused",
    "compile_template",
    "prompt_messages",
    "prompt_tokens",
]
