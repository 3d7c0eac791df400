"""One small interface to a model, and the engines behind it.

`Model` is what is loaded once for each model file: tokenizer, templates, weights. `Engine` is
one KV pool on it: sequences are opened, fed in batches, sampled, shared, taken out as bytes and
put back, closed. A sequence is of one `AdapterSet` for its life, and so is a batch.
`EmbeddingEngine` is
for models that make vectors (`ModelInfo.kind` says which): batches of inputs in, one vector each
out, nothing kept. A fork of a process that holds both is a running instance. Every call is
validated here before it reaches native code, where a failed assertion would end the process.

`load_model` finds an engine by the name of its factory, `package.module:function`, so that the
fake of `sits.testing` and engines of other packages need no change here.
"""

from sits.runtime.engine._adapters import AdapterFile, AdapterSet
from sits.runtime.engine._errors import AdapterLoadError, EngineError, ModelLoadError
from sits.runtime.engine._inputs import check_inputs
from sits.runtime.engine._interface import (
    EmbeddingEngine,
    EmbeddingInfo,
    Engine,
    Feed,
    Model,
    ModelInfo,
    Pooling,
    Sampled,
    Sampler,
)
from sits.runtime.engine._load import LLAMACPP, load_model
from sits.runtime.engine._pool import SequenceTable
from sits.runtime.engine._shapes import EmbeddingShape, PoolShape

__all__ = [
    "LLAMACPP",
    "AdapterFile",
    "AdapterLoadError",
    "AdapterSet",
    "EmbeddingEngine",
    "EmbeddingInfo",
    "EmbeddingShape",
    "Engine",
    "EngineError",
    "Feed",
    "Model",
    "ModelInfo",
    "ModelLoadError",
    "PoolShape",
    "Pooling",
    "Sampled",
    "Sampler",
    "SequenceTable",
    "check_inputs",
    "load_model",
]
