"""One instance's requests, turned into engine steps and pieces of text.

`Batcher` owns the requests' lives, and its scheduler decides what goes into each step;
`EmbeddingBatcher` does the same for models that make vectors; `AnswerText` turns a token's bytes
into whole characters and finds stop strings; `prompt_tokens` renders a prompt. Nothing here
waits, and nothing knows of sockets.
"""

from sits.runtime.batch._batcher import Batcher, make_pool
from sits.runtime.batch._embedding import EmbeddingBatcher
from sits.runtime.batch._prompt import (
    compile_template,
    constant_prefix,
    prompt_messages,
    prompt_tokens,
)
from sits.runtime.batch._refused import RequestRefused
from sits.runtime.batch._rules import BatchRules
from sits.runtime.batch._text import AnswerText

__all__ = [
    "AnswerText",
    "BatchRules",
    "Batcher",
    "EmbeddingBatcher",
    "RequestRefused",
    "compile_template",
    "constant_prefix",
    "make_pool",
    "prompt_messages",
    "prompt_tokens",
]
