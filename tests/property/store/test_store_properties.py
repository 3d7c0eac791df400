"""The store against a dictionary, through any history, restarts among it."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sits.store import KeyEntry, StoreError, UnitRecord, open_store
from tests.unit.store.rows import stored_revisions

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
        spec = f'{{"{tenant}{name}{revision}":1}}'
        result = self.store.put_unit(tenant, name, revision=revision, spec_json=spec, now_s=now_s)
        former = self.units.get(key)
        living = former is not None and former.deleted_s is None
        if former is None or not living:
            self.units[key] = UnitRecord(tenant, name, revision, spec, now_s, now_s)
        elif former.revision != revision:
            self.units[key] = replace(former, revision=revision, spec_json=spec, updated_s=now_s)
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
            given = {revision for revision, _ in stored_revisions(self.store, tenant, name)}
            assert given == expected
        in_force = {key.key_id for key in self.keys.values() if key.revoked_s is None}
        assert [key.key_id for key in self.store.keys_in_force()] == sorted(in_force)
        for key_id, entry in self.keys.items():
            assert self.store.key(key_id) == entry


TestStore = StoreAgainstModel.TestCase
TestStore.settings = settings(max_examples=25, stateful_step_count=25)
