"""Fakes that ship: what tests of SITS, and of what is built on it, run instead of a model.

Each passes the contract suite of the real thing (`tests/contract`).

    FakeModel        a byte-level model that answers with its last message; instant, exact
    load_fake()      its factory, for settings: `engine = "sits.testing:load_fake"`
"""

from sits.testing._fake_engine import FakeBehaviour, FakeEngine, FakeModel, load_fake

__all__ = ["FakeBehaviour", "FakeEngine", "FakeModel", "load_fake"]
