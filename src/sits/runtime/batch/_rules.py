"""How an instance's requests are run."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sits.sandbox import Limits


@dataclass(frozen=True)
class BatchRules:
    """Limits of a batcher.

    Attributes:
        queue_limit: how many requests may wait for a sequence; the next is refused.
        rendering: limits for the rendering of one prompt.
        stall_us: how long a step may take while answers run: prompts go in by pieces that fit.
        piece_tokens: where fewer tokens fit, a step with a piece of a prompt has so many all the
            same, and then there are steps without. llama.cpp's attention goes by tiles of 64: over
            a long prompt, a step of fewer tokens costs several times as much for each of them.
        wait_tokens: a request waits for another's prompt to be computed when it will share so many
            tokens more by that. To wait for fewer leaves more of a batch empty than it saves.
        threads: says how many threads the next step may use.
    """

    queue_limit: int = 64
    rendering: Limits = field(default_factory=Limits)
    stall_us: int = 80_000
    piece_tokens: int = 64
    wait_tokens: int = 16
    threads: Callable[[], int] = lambda: 1
