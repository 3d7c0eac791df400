"""Fakes that ship: what tests of SITS, and of what is built on it, run instead of a model.

Each passes the contract suite of the real thing (`tests/contract`).

    FakeModel        a byte-level model that answers with its last message; instant, exact
    load_fake()      its factory, for settings: `engine = "sits.testing:load_fake"`
    load_slow_fake() the same, at 20 ms a step
"""

from sits.testing._fake_engine import (
    FakeBehaviour,
    FakeEngine,
    FakeModel,
    load_fake,
    load_slow_fake,
)

__all__ = ["FakeBehaviour", "FakeEngine", "FakeModel", "load_fake", "load_slow_fake"]
