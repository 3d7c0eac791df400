"""The store against a dictionary, through any history, restarts among it."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sits.store import KeyEntry, RevisionRecord, StoreError, UnitRecord, open_store

tenants = st.sampled_from(["a", "b"])
names = st.sampled_from(["x", "y"])
revisions = st.sampled_from(["r1", "r2", "r3"])
key_ids = st.sampled_from(["k1", "k2", "k3", "k4"])


class StoreAgainstModel(RuleBasedStateMachine):
    """Everything is said to both; both must give the same."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="sits-store-")
        self.path = Path(self.directory.name) / "sits.db"
        self.store = open_store(self.path)
        self.now_s = 0.0
        self.units: dict[tuple[str, str], UnitRecord] = {}
        self.revisions: dict[tuple[str, str], set[str]] = {}
        self.keys: dict[str, KeyEntry] = {}

    def teardown(self) -> None:
        self.store.close()
        self.directory.cleanup()

    def tick(self) -> float:
        self.now_s += 1.0
        return self.now_s

    @rule(tenant=tenants, name=names, revision=revisions)
    def put(self, tenant: str, name: str, revision: str) -> None:
        now_s, key = self.tick(), (tenant, name)
        record = RevisionRecord(revision, f'{{"{tenant}{name}{revision}":1}}', now_s)
        if known := self.store.revision(tenant, name, revision):
            record = replace(record, created_s=known.created_s)
        result = self.store.put_unit(tenant, name, record, now_s=now_s)
        former = self.units.get(key)
        living = former is not None and former.deleted_s is None
        if former is None or not living:
            self.units[key] = UnitRecord(tenant, name, record, None, now_s, now_s)
        elif former.wanted.revision != revision:
            self.units[key] = replace(former, wanted=record, updated_s=now_s)
        self.revisions.setdefault(key, set()).add(revision)
        assert result.unit == self.units[key]
        assert result.created == (not living)

    @rule(tenant=tenants, name=names)
    def delete(self, tenant: str, name: str) -> None:
        now_s, former = self.tick(), self.units.get((tenant, name))
        expected = former is not None and former.deleted_s is None
        assert self.store.delete_unit(tenant, name, now_s) == expected
        if former is not None and expected:
            self.units[tenant, name] = replace(former, deleted_s=now_s)

    @rule(tenant=tenants, name=names)
    def purge(self, tenant: str, name: str) -> None:
        former = self.units.get((tenant, name))
        expected = former is not None and former.deleted_s is not None
        assert self.store.purge_unit(tenant, name) == expected
        if expected:
            del self.units[tenant, name]

    @rule(tenant=tenants, name=names, revision=revisions)
    def want(self, tenant: str, name: str, revision: str) -> None:
        now_s, former = self.tick(), self.units.get((tenant, name))
        there = revision in self.revisions.get((tenant, name), set())
        expected = there and former is not None and former.deleted_s is None
        assert self.store.want_revision(tenant, name, revision, now_s) == expected
        if former is not None and expected and former.wanted.revision != revision:
            record = self.store.revision(tenant, name, revision)
            assert record is not None
            self.units[tenant, name] = replace(former, wanted=record, updated_s=now_s)

    @rule(tenant=tenants, name=names)
    def serve(self, tenant: str, name: str) -> None:
        former = self.units.get((tenant, name))
        if former is None:
            return
        wanted = former.wanted
        self.store.serve_revision(tenant, name, wanted.revision, cause="deploy", now_s=self.tick())
        self.units[tenant, name] = replace(former, serving=wanted)
        assert self.store.routes(tenant, name)[-1].revision == wanted.revision

    @rule(key_id=key_ids, tenant=tenants, name=names, alone=st.booleans())
    def add_key(self, key_id: str, tenant: str, name: str, alone: bool) -> None:
        entry = KeyEntry(key_id, f"hash-{key_id}", tenant, name, self.tick())
        refused = False
        try:
            self.store.add_key(entry, alone=alone)
        except StoreError:
            refused = True
        assert refused == (key_id in self.keys)
        if not refused:
            for other in list(self.keys.values()):
                same = (other.tenant, other.name, other.revoked_s) == (tenant, name, None)
                if alone and same:
                    self.keys[other.key_id] = replace(other, revoked_s=entry.created_s)
            self.keys[key_id] = entry

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.path)

    @invariant()
    def gives_what_the_model_gives(self) -> None:
        assert self.store.units() == tuple(self.units[key] for key in sorted(self.units))
        for (tenant, name), expected in self.revisions.items():
            assert {each.revision for each in self.store.revisions(tenant, name)} == expected
        in_force = {key.key_id for key in self.keys.values() if key.revoked_s is None}
        assert [key.key_id for key in self.store.keys_in_force()] == sorted(in_force)
        for key_id, entry in self.keys.items():
            assert self.store.key(key_id) == entry


TestStore = StoreAgainstModel.TestCase
TestStore.settings = settings(max_examples=25, stateful_step_count=25)
