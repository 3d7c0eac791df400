"""Prepares a model file for the engine of this machine: `python -m sits.runtime.prepare`.

A process of its own: it loads a model that may be broken, takes memory and time, and is gone when
it is done. The decision is in `sits.models` (`decide_representation`); this carries it out.

    _main      arguments, the answer as JSON, exit status
    _llamacpp  writing another form of the weights, with llama.cpp's own quantiser
    _measure   how fast a file is here: a prompt of 300 tokens, steps of a batch of 8

What it needs that the engine's interface has not (quantising, timing an encoder) it takes from
llama.cpp directly. Files of other engines are taken as they were shipped.
"""

from sits.runtime.prepare._main import main

__all__ = ["main"]
