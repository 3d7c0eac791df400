"""One small interface to a model, and the engines behind it.

`Model` is what is loaded once for each model file: tokenizer, templates, weights. `Engine` is
one KV pool on it: sequences are opened, fed in batches, sampled, closed. A fork of a process
that holds both is a running instance. Every call is validated here before it reaches native
code, where a failed assertion would end the process.

`load_model` finds an engine by the name of its factory, `package.module:function`, so that the
fake of `sits.testing` and engines of other packages need no change here.
"""

from sits.runtime.engine._interface import (
    Engine,
    EngineError,
    Feed,
    Model,
    ModelInfo,
    ModelLoadError,
    PoolShape,
)
from sits.runtime.engine._load import LLAMACPP, load_model
from sits.runtime.engine._pool import SequenceTable

__all__ = [
    "LLAMACPP",
    "Engine",
    "EngineError",
    "Feed",
    "Model",
    "ModelInfo",
    "ModelLoadError",
    "PoolShape",
    "SequenceTable",
    "load_model",
]
