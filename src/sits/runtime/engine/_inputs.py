"""The validation that every embedding engine shares."""

from collections.abc import Sequence

from sits.runtime.engine._errors import EngineError
from sits.runtime.engine._shapes import EmbeddingShape


def check_inputs(
    inputs: Sequence[Sequence[int]], shape: EmbeddingShape, vocabulary_tokens: int
) -> None:
    """Raise `EngineError` when the inputs are no valid batch."""
    if not inputs:
        raise EngineError("embed: no inputs; a batch needs at least one")
    if len(inputs) > shape.inputs:
        raise EngineError(f"embed: {len(inputs)} inputs in one batch; at most {shape.inputs}")
    total = sum(map(len, inputs))
    if total > shape.batch_tokens:
        raise EngineError(
            f"embed: {total} tokens in one batch; at most {shape.batch_tokens} are taken"
        )
    for number, tokens in enumerate(inputs):
        if not tokens:
            raise EngineError(f"embed: input {number} has no tokens")
        if len(tokens) > shape.input_tokens:
            raise EngineError(
                f"embed: input {number} has {len(tokens)} tokens; at most {shape.input_tokens} "
                "are taken"
            )
        for token in tokens:
            if not 0 <= token < vocabulary_tokens:
                raise EngineError(
                    f"embed: token {token} is not in the vocabulary of {vocabulary_tokens}"
                )
