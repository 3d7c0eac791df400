"""How the llama.cpp engine draws tokens: native chains, with grammars and logprobs beside them.

Invariants:

* The order is bias, penalties, min-p, top-p, temperature, seeded draw. Penalties count the
  answer's tokens, none of the prompt's.
* A grammar is asked about the token that was drawn, and only when it says no are all others
  weighed by it: for most tokens that costs nothing, where to weigh the whole vocabulary first
  takes longer than the model. Source: llama.cpp's `common/sampling.cpp`.
* Logprobs are those of the model itself: before bias, penalties, temperature and grammar.

A native chain first writes an entry for each token of the vocabulary, which for a small model is
a thirtieth of a step of many streams. So where no penalty and no grammar looks at all of them,
the best one, or those that min-p may leave, are found in the logits themselves.
"""

import ctypes
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llama_cpp.llama_grammar import json_schema_to_gbnf
from msgspec.structs import replace

from sits.runtime.engine._errors import EngineError
from sits.runtime.engine._interface import Sampled
from sits.runtime.engine._llama_native import forget_log, last_words, native
from sits.wire import Sampling

_ENTRY = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
# Penalties look at so many of an answer's tokens; more than answers are long.
_PENALTY_TOKENS = 4096
# The chain decides who passes min-p; this only has to leave in all that may.
_MARGIN = 1e-3


class LlamaSampler:
    """One request's chain and grammar. See `Sampler`.

    Raises:
        EngineError: the schema makes no grammar.
    """

    def __init__(
        self, vocab: Any, vocabulary_tokens: int, sampling: Sampling, history: Sequence[int]
    ) -> None:
        self._vocabulary_tokens = vocabulary_tokens
        self._top = sampling.top_logprobs
        self._shortcut = _find_shortcut(sampling)
        self._grammar: Any = None
        if sampling.json_schema is not None:
            self._grammar = _make_grammar(vocab, sampling.json_schema)
        left = sampling if self._shortcut is None else replace(sampling, logit_bias=())
        self._chain: Any = _make_chain(vocabulary_tokens, left)
        for token in history:
            self._accept(token)

    def sample(self, context: Any, row: int) -> Sampled:
        """Draw the token after a row of the last batch. May alter that row's logits."""
        if self._grammar is None and self._top is None and self._shortcut is None:
            return Sampled(native.llama_sampler_sample(self._chain, context, row))
        logits = np.ctypeslib.as_array(
            native.llama_get_logits_ith(context, row), shape=(self._vocabulary_tokens,)
        )
        if self._shortcut is not None:
            token = self._shortcut.draw(logits if self._top is None else logits.copy(), self._chain)
        elif self._grammar is None:
            token = native.llama_sampler_sample(self._chain, context, row)
        else:
            token = self._draw(logits)
            self._accept(token)
        if self._top is None:
            return Sampled(token)
        return _with_logprobs(token, logits, self._top)

    def close(self) -> None:
        """See `Sampler.close`."""
        for part in (self._chain, self._grammar):
            if part is not None:
                native.llama_sampler_free(part)
        self._chain = self._grammar = None

    def _draw(self, logits: Any) -> int:
        token = _apply(_entries(logits), (self._chain,))
        alone = np.zeros(1, _ENTRY)
        alone["id"], alone["logit"] = token, 1.0
        _apply(alone, (self._grammar,), select=False)
        if alone["logit"][0] != -np.inf:
            return token
        return _apply(_entries(logits), (self._grammar, self._chain))

    def _accept(self, token: int) -> None:
        native.llama_sampler_accept(self._chain, token)
        if self._grammar is not None:
            native.llama_sampler_accept(self._grammar, token)


@dataclass(frozen=True)
class _Shortcut:
    """Draws without an entry for each token of the vocabulary.

    Attributes:
        tokens, biases: what is added to which logits.
        below: how far below the highest logit min-p may leave a token; None: greedy.
    """

    tokens: Any
    biases: Any
    below: float | None

    def draw(self, logits: Any, chain: Any) -> int:
        """Return the token that a chain with the biases would draw. Mutates the logits.

        Args:
            logits: (vocabulary,) float32.
            chain: the request's, without the biases.
        """
        if len(self.tokens):
            logits[self.tokens] += self.biases
        best = int(logits.argmax())
        if self.below is None:
            return best
        ids = np.flatnonzero(logits >= logits[best] - self.below)
        if not len(ids):
            return best  # a model that gives no numbers
        entries = np.zeros(len(ids), _ENTRY)
        entries["id"], entries["logit"] = ids, logits[ids]
        return _apply(entries, (chain,))


def _find_shortcut(sampling: Sampling) -> _Shortcut | None:
    """Return the way around the whole vocabulary; None where something has to look at all."""
    if sampling.json_schema is not None or sampling.presence_penalty or sampling.frequency_penalty:
        return None
    greedy = sampling.temperature <= 0
    biased = [token for token, _ in sampling.logit_bias]
    if not (greedy or sampling.min_p > 0) or len(set(biased)) < len(biased):
        return None
    return _Shortcut(
        np.array(biased, np.int64),
        np.array([bias for _, bias in sampling.logit_bias], np.float32),
        None if greedy else _MARGIN - math.log(sampling.min_p),
    )


def _entries(logits: Any) -> Any:
    entries = np.zeros(len(logits), _ENTRY)
    entries["id"] = np.arange(len(logits), dtype=np.int32)
    entries["logit"] = logits
    return entries


def _apply(entries: Any, parts: Sequence[Any], *, select: bool = True) -> int:
    """Apply samplers to entries, in place; return the token that they selected."""
    pointer = entries.ctypes.data_as(ctypes.POINTER(native.llama_token_data))
    array = native.llama_token_data_array(pointer, len(entries), -1, False)
    for part in parts:
        native.llama_sampler_apply(part, ctypes.byref(array))
    if not select:
        return -1
    if not 0 <= array.selected < array.size:
        raise EngineError("the sampler selected no token; the schema may allow none here")
    return int(array.data[array.selected].id)


def _with_logprobs(token: int, logits: Any, count: int) -> Sampled:
    highest = float(logits.max())
    total = highest + float(np.log(np.exp(logits - highest, dtype=np.float64).sum()))
    top: tuple[tuple[int, float], ...] = ()
    if count:
        best = np.argpartition(logits, -count)[-count:]
        order = best[np.argsort(-logits[best], kind="stable")]
        top = tuple((int(each), float(logits[each]) - total) for each in order)
    return Sampled(token, float(logits[token]) - total, top)


def _make_grammar(vocab: Any, schema: str) -> Any:
    try:
        text = json_schema_to_gbnf(schema)
    except Exception as error:
        raise EngineError(
            f"the JSON Schema makes no grammar ({type(error).__name__}: {error}); use a simpler one"
        ) from error
    forget_log()
    grammar = native.llama_sampler_init_grammar(vocab, text.encode(), b"root")
    if not grammar:
        raise EngineError(f"the JSON Schema makes no grammar ({last_words()}); use a simpler one")
    return grammar


def _make_chain(vocabulary_tokens: int, sampling: Sampling) -> Any:
    chain = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
    for link in _links(vocabulary_tokens, sampling):
        native.llama_sampler_chain_add(chain, link)
    return chain


def _links(vocabulary_tokens: int, sampling: Sampling) -> list[Any]:
    links = []
    if sampling.logit_bias:
        count = len(sampling.logit_bias)
        biases = (native.llama_logit_bias * count)(
            *(native.llama_logit_bias(token, bias) for token, bias in sampling.logit_bias)
        )
        links.append(native.llama_sampler_init_logit_bias(vocabulary_tokens, count, biases))
    if sampling.presence_penalty or sampling.frequency_penalty:
        links.append(
            native.llama_sampler_init_penalties(
                vocabulary_tokens,
                _PENALTY_TOKENS,
                1.0,
                sampling.frequency_penalty,
                sampling.presence_penalty,
            )
        )
    if sampling.temperature <= 0:
        return [*links, native.llama_sampler_init_greedy()]
    seed = sampling.seed if sampling.seed is not None else int.from_bytes(os.urandom(4), "big")
    # min-p first: it needs no sorted vocabulary, and leaves top-p few tokens to sort.
    return [
        *links,
        native.llama_sampler_init_min_p(sampling.min_p, 1),
        native.llama_sampler_init_top_p(sampling.top_p, 1),
        native.llama_sampler_init_temp(sampling.temperature),
        native.llama_sampler_init_dist(seed & 0xFFFFFFFF),
    ]
