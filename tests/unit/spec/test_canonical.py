"""A unit's canonical JSON and its revision."""

import hashlib

from sits.spec import canonical_json, load_unit, revision_id, unit_from_json

MINIMAL = (
    '{"engine":{"kind":"llamacpp"},"model":"builtin://x","name":"a",'
    '"scale":{"max_instances":1,"min_instances":0}}'
)


def test_canonical_json_is_sorted_dense_and_spells_defaults_out() -> None:
    unit = load_unit("name: a\nmodel: builtin://x\n", "a.yaml").unit
    assert canonical_json(unit) == MINIMAL


def test_a_revision_is_the_head_of_the_hash_of_the_canonical_json() -> None:
    unit = load_unit("name: a\nmodel: builtin://x\n", "a.yaml").unit
    assert revision_id(unit) == hashlib.sha256(MINIMAL.encode()).hexdigest()[:12]


def test_files_that_mean_the_same_have_the_same_revision() -> None:
    one = load_unit("name: a\nmodel: builtin://x\nlabels: {b: '1', a: '2'}\n", "1").unit
    other = load_unit('{"labels": {"a": "2", "b": "1"}, "model": "builtin://x", "name": "a"}', "2")
    assert revision_id(one) == revision_id(other.unit)


def test_another_prompt_is_another_revision() -> None:
    one = load_unit("name: a\nmodel: builtin://x\nprompt: hi\n", "1").unit
    other = load_unit("name: a\nmodel: builtin://x\nprompt: ho\n", "2").unit
    assert revision_id(one) != revision_id(other)


def test_a_unit_comes_back_from_its_canonical_json() -> None:
    unit = load_unit("name: a\nmodel: builtin://x\nprompt: {system: ü}\n", "1").unit
    assert unit_from_json(canonical_json(unit)) == unit


def test_a_unit_that_an_older_version_stored_still_loads() -> None:
    stored = (
        '{"labels":{},"model":"builtin://x","name":"a","prompt":{"template":"hi"},'
        '"scale":{"max_instances":1,"min_instances":0}}'
    )
    assert unit_from_json(stored) == load_unit("name: a\nmodel: builtin://x\nprompt: hi", "1").unit


def test_fields_that_are_not_used_make_no_difference_to_a_revision() -> None:
    bare = load_unit("name: a\nmodel: builtin://x\n", "1").unit
    said = load_unit("name: a\nmodel: builtin://x\nlora: []\nslo: {}\nlabels: {}\n", "2").unit
    assert revision_id(bare) == revision_id(said)
