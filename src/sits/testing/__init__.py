"""Fakes that ship: what tests of SITS, and of what is built on it, run instead of a model.

Each passes the contract suite of the real thing (`tests/contract`).

    FakeModel        a byte-level model that answers with its last message; instant, exact
    load_fake()      its factory, for settings: `engine = "sits.testing:load_fake"`
    load_slow_fake() the same, at 20 ms a step
    FakeHub          a model hub on this machine, with faults: cuts, stalls, 429s, wrong bytes
    FakeModels       where control gets models from, in memory
    tiny_gguf()      a model file of a few hundred bytes that no engine can run
    tiny_adapter()   a LoRA adapter of a few hundred bytes: the fake model begins with its words
    load_fake_embedding()  the same as an embedding model: vectors that count bytes
    FakeOpenAI       an endpoint that speaks OpenAI's API, on loopback, with faults to order
"""

from sits.testing._fake_adapters import tiny_adapter
from sits.testing._fake_engine import (
    FAKE_DIMENSIONS,
    MIXED,
    FakeBehaviour,
    FakeEmbeddingEngine,
    FakeEngine,
    FakeModel,
    load_fake,
    load_fake_embedding,
    load_slow_fake,
)
from sits.testing._fake_hub import FakeHub, HubFaults
from sits.testing._fake_models import FakeModels
from sits.testing._fake_openai import FakeEndpointBehaviour, FakeOpenAI, FakeRequest
from sits.testing._tiny_gguf import tiny_gguf

__all__ = [
    "FAKE_DIMENSIONS",
    "MIXED",
    "FakeBehaviour",
    "FakeEmbeddingEngine",
    "FakeEndpointBehaviour",
    "FakeEngine",
    "FakeHub",
    "FakeModel",
    "FakeModels",
    "FakeOpenAI",
    "FakeRequest",
    "HubFaults",
    "load_fake",
    "load_fake_embedding",
    "load_slow_fake",
    "tiny_adapter",
    "tiny_gguf",
]
