"""How fast a model file is on this machine, with the settings that workers have.

A prompt goes in by 64 tokens on one thread, as in a worker, and a step decodes one token of each
of 8 sequences. Token ids are made up: time does not depend on them. The best of a few rounds is
taken, since a busy machine only ever adds time; of a large model there is one, and not all of it
(`_sampling`).
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as native

from sits.models import ModelError, ModelKind
from sits.runtime.prepare._log import last_words, start_log
from sits.runtime.prepare._sampling import time_prompt, time_steps

_SEQUENCES = 8
_CONTEXT = 1024
_BATCH = 64
_ROUNDS = 2


def time_model(
    path: Path, kind: ModelKind, *, prompt_tokens: int = 300, steps: int = 8
) -> tuple[float, float]:
    """Load a file and time it.

    Args:
        path: a GGUF file.
        kind: what it makes of its input.
        prompt_tokens: of the prompt (for an encoder, of the text; at most what it takes).
        steps: how many steps of a batch of 8 are timed.

    Returns:
        Milliseconds for the prompt, and for one step (0 for an encoder).

    Raises:
        ModelError: llama.cpp cannot load it or compute with it.
    """
    start_log()
    params = native.llama_model_default_params()
    model = native.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise ModelError(
            f"{path.name}: llama.cpp cannot load this model ({last_words()}); expected a complete "
            "GGUF file of an architecture that it knows"
        )
    try:
        encoder = kind is ModelKind.EMBEDDING
        context = native.llama_init_from_model(model, _params(embeddings=encoder))
        if not context:
            raise ModelError(f"{path.name}: llama.cpp gives no context ({last_words()})")
        try:
            timer = _Timer(model, context, path.name, encoder=encoder)
            limit = min(prompt_tokens, native.llama_model_n_ctx_train(model), _CONTEXT // 2)
            if encoder:
                return timer.prompt_ms([limit]), 0.0
            pieces = [min(_BATCH, limit - at) for at in range(0, limit, _BATCH)]
            return timer.prompt_ms(pieces), timer.step_ms(steps)
        finally:
            native.llama_free(context)
    finally:
        native.llama_model_free(model)


def _params(*, embeddings: bool) -> Any:
    params = native.llama_context_default_params()
    params.n_ctx = _CONTEXT
    # An encoder sees a text as a whole.
    params.n_batch = params.n_ubatch = _CONTEXT // 2 if embeddings else _BATCH
    params.n_seq_max = 1 if embeddings else _SEQUENCES
    params.n_threads = params.n_threads_batch = 1
    params.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.kv_unified = True
    params.embeddings = embeddings
    params.no_perf = True
    return params


class _Timer:
    def __init__(self, model: Any, context: Any, name: str, *, encoder: bool) -> None:
        self._context = context
        self._encoder = encoder
        self._name = name
        self._tokens = native.llama_vocab_n_tokens(native.llama_model_get_vocab(model))
        self._memory = native.llama_get_memory(context)
        self._has_decoder = native.llama_model_has_decoder(model)

    def prompt_ms(self, pieces: Sequence[int]) -> float:
        """Return the milliseconds that one sequence's pieces take, from an empty memory."""
        best_s = float("inf")
        for _ in range(_ROUNDS):
            self._clear()
            took_s, more = time_prompt(pieces, self._piece, time.perf_counter)
            best_s = min(best_s, took_s)
            if not more:
                break
        return best_s * 1000

    def step_ms(self, count: int) -> float:
        """Return the milliseconds of the fastest step that decodes a token of each sequence."""
        self._clear()
        return time_steps(count, self._step, time.perf_counter) * 1000

    def _piece(self, start: int, tokens: int) -> None:
        self._run([(start + offset, 0) for offset in range(tokens)], self._encoder)

    def _step(self, position: int) -> None:
        self._run([(position, sequence) for sequence in range(_SEQUENCES)], True)

    def _clear(self) -> None:
        if self._memory:  # an encoder has none
            native.llama_memory_clear(self._memory, True)

    def _run(self, places: Sequence[tuple[int, int]], all_outputs: bool) -> None:
        batch = native.llama_batch_init(len(places), 0, 1)
        try:
            for row, (position, sequence) in enumerate(places):
                batch.token[row] = (position * 31 + 7) % self._tokens
                batch.pos[row] = position
                batch.n_seq_id[row] = 1
                batch.seq_id[row][0] = sequence
                batch.logits[row] = all_outputs or row == len(places) - 1
            batch.n_tokens = len(places)
            run = native.llama_decode if self._has_decoder else native.llama_encode
            if run(self._context, batch) != 0:
                raise ModelError(f"{self._name}: llama.cpp cannot compute with it ({last_words()})")
        finally:
            native.llama_batch_free(batch)
