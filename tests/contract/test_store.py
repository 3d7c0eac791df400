"""What every database of the store gives: the same suite on SQLite and on a real PostgreSQL."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sits.store import (
    EventRecord,
    KeyEntry,
    RevisionRecord,
    Store,
    StoreError,
    StoreUnavailable,
    open_store,
)
from tests.postgres import PostgresServer, postgres_server
from tests.unit.store.rows import make_revision

Open = Callable[[], Store]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Return what opens one and the same store, as often as it is called."""
    if request.param == "sqlite":
        return lambda: open_store(tmp_path / "sits.db")
    url = request.getfixturevalue("server").new_database()
    return lambda: open_store(tmp_path / "sits.db", url)


@pytest.fixture
def store(open_again: Open) -> Iterator[Store]:
    opened = open_again()
    yield opened
    opened.close()


def put(store: Store, revision: str, now_s: float = 1.0, name: str = "chat") -> None:
    store.put_unit("t", name, make_revision(revision, now_s), now_s=now_s)


def names_of(revisions: tuple[RevisionRecord, ...]) -> list[tuple[str, float]]:
    return [(revision.revision, revision.created_s) for revision in revisions]


def test_what_was_put_is_there_after_reopening(open_again: Open) -> None:
    first = open_again()
    put(first, "r1")
    first.serve_revision("t", "chat", "r1", cause="deploy", now_s=2.0)
    first.add_key(KeyEntry("k1", "hash", "t", "local", 1.0))
    first.add_events([EventRecord("t", "chat", "Normal", "Deployed", "r1", 1.0, 1.0)])
    first.close()
    second = open_again()
    (unit,) = second.units()
    assert (unit.tenant, unit.name) == ("t", "chat")
    assert unit.wanted == unit.serving == make_revision("r1")
    assert [key.key_id for key in second.keys_in_force()] == ["k1"]
    assert [event.reason for event in second.events("t", "chat")] == ["Deployed"]
    assert [route.revision for route in second.routes("t", "chat")] == ["r1"]
    second.close()


def test_epochs_increase_over_restarts(open_again: Open) -> None:
    epochs = []
    for _ in range(3):
        opened = open_again()
        epochs += [opened.next_epoch(), opened.next_epoch()]
        opened.close()
    assert epochs == [1, 2, 3, 4, 5, 6]


def test_the_same_revision_again_changes_nothing(store: Store) -> None:
    first = store.put_unit("t", "chat", make_revision("r1"), now_s=1.0)
    again = store.put_unit("t", "chat", make_revision("r1", 2.0), now_s=2.0)
    assert (first.created, again.created) == (True, False)
    assert again.unit == first.unit


def test_going_back_to_an_earlier_revision_keeps_it_as_it_was(store: Store) -> None:
    put(store, "r1", 1.0)
    put(store, "r2", 2.0)
    put(store, "r1", 3.0)
    (unit,) = store.units()
    assert (unit.wanted.revision, unit.created_s, unit.updated_s) == ("r1", 1.0, 3.0)
    assert names_of(store.revisions("t", "chat")) == [("r1", 1.0), ("r2", 2.0)]


def test_a_deploy_undoes_a_deletion_and_begins_a_new_life(store: Store) -> None:
    put(store, "r1", 1.0)
    store.serve_revision("t", "chat", "r1", cause="deploy", now_s=1.5)
    assert store.delete_unit("t", "chat", 2.0)
    assert not store.delete_unit("t", "chat", 3.0)
    result = store.put_unit("t", "chat", make_revision("r1"), now_s=4.0)
    assert (result.created, result.unit.created_s, result.unit.deleted_s) == (True, 4.0, None)
    assert result.unit.serving is None
    assert store.routes("t", "chat") == ()
    assert not store.purge_unit("t", "chat")


def test_revisions_outlive_their_unit(store: Store) -> None:
    put(store, "r1")
    store.delete_unit("t", "chat", 2.0)
    assert store.purge_unit("t", "chat")
    assert store.unit("t", "chat") is None
    assert names_of(store.revisions("t", "chat")) == [("r1", 1.0)]


def test_a_revision_whose_text_was_damaged_is_mended_by_a_deploy(store: Store) -> None:
    store.put_unit("t", "chat", RevisionRecord("r1", "{", 1.0), now_s=1.0)
    mended = store.put_unit("t", "chat", make_revision("r1", 2.0), now_s=2.0)
    assert (mended.unit.wanted.spec_json, mended.unit.updated_s) == ("{r1}", 1.0)
    assert names_of(store.revisions("t", "chat")) == [("r1", 1.0)]


def test_tenants_units_of_the_same_name_are_different_ones(store: Store) -> None:
    put(store, "r1")
    store.put_unit("other", "chat", make_revision("r2"), now_s=1.0)
    store.delete_unit("other", "chat", 2.0)
    unit = store.unit("t", "chat")
    assert unit is not None
    assert (unit.wanted.revision, unit.deleted_s) == ("r1", None)


def test_an_earlier_revision_can_be_wanted_again_and_no_other_unit_or_revision(
    store: Store,
) -> None:
    put(store, "r1", 1.0)
    put(store, "r2", 2.0)
    assert store.want_revision("t", "chat", "r1", 3.0)
    unit = store.unit("t", "chat")
    assert unit is not None
    assert (unit.wanted.revision, unit.updated_s) == ("r1", 3.0)
    assert not store.want_revision("t", "chat", "r9", 4.0)
    assert not store.want_revision("other", "chat", "r1", 4.0)
    store.delete_unit("t", "chat", 5.0)
    assert not store.want_revision("t", "chat", "r2", 6.0)


def test_a_route_points_where_it_was_last_told_and_remembers_where_it_pointed(
    store: Store,
) -> None:
    put(store, "r1", 1.0)
    put(store, "r2", 2.0)
    unit = store.unit("t", "chat")
    assert unit is not None
    assert unit.serving is None
    for revision, cause in (("r1", "deploy"), ("r2", "deploy"), ("r2", "deploy"), ("r1", "back")):
        store.serve_revision("t", "chat", revision, cause=cause, now_s=3.0)
    unit = store.unit("t", "chat")
    assert unit is not None
    assert unit.serving == make_revision("r1")
    assert [(each.seq, each.revision, each.cause) for each in store.routes("t", "chat")] == [
        (1, "r1", "deploy"),
        (2, "r2", "deploy"),
        (3, "r1", "back"),
    ]


def test_what_could_serve_and_what_could_not_is_remembered_until_it_is_wanted_again(
    store: Store,
) -> None:
    def standing() -> tuple[str | None, str | None, str | None]:
        unit = store.unit("t", "chat")
        assert unit is not None
        return unit.serving.revision if unit.serving else None, unit.proven, unit.failed

    put(store, "r1", 1.0)
    store.serve_revision("t", "chat", "r1", cause="deploy", now_s=1.0)
    store.prove_revision("t", "chat", "r1")
    put(store, "r2", 2.0)
    store.serve_revision("t", "chat", "r2", cause="deploy", now_s=2.0)
    store.prove_revision("t", "chat", "r1")  # too late: it takes no traffic any more
    assert standing() == ("r2", "r1", None)
    store.revert_unit("t", "chat", "r1", failed=("r2", "no memory"), now_s=3.0)
    assert standing() == ("r1", "r1", "r2")
    assert [route.cause for route in store.routes("t", "chat")][-1] == "failed rollout"
    assert store.want_revision("t", "chat", "r2", 4.0)
    assert standing() == ("r1", "r1", None)
    store.revert_unit("t", "chat", "r1", failed=("r2", "no memory"), now_s=5.0)
    put(store, "r2", 6.0)
    assert standing() == ("r1", "r1", None)
    store.delete_unit("t", "chat", 7.0)
    put(store, "r2", 8.0)
    assert standing() == (None, None, None)


def test_a_routes_history_is_bounded(store: Store) -> None:
    put(store, "r1")
    put(store, "r2")
    for number in range(120):
        revision = f"r{number % 2 + 1}"
        store.serve_revision("t", "chat", revision, cause="deploy", now_s=float(number))
    assert [route.seq for route in store.routes("t", "chat")] == list(range(21, 121))


def test_a_model_is_pinned_once(store: Store) -> None:
    store.put_unit("t", "chat", RevisionRecord("r1", "{}", 1.0), now_s=1.0)
    store.set_pin("t", "chat", "r1", "first")
    store.set_pin("t", "chat", "r1", "second")
    revision = store.revision("t", "chat", "r1")
    assert revision is not None
    assert revision.pin_json == "first"


def test_what_units_that_are_there_are_bound_to_is_told_and_nothing_else(store: Store) -> None:
    put(store, "r1")
    put(store, "r2")
    put(store, "r3", name="gone")
    store.delete_unit("t", "gone", 2.0)
    assert store.pins() == {"pin of r1", "pin of r2", "pin of r3"}
    store.purge_unit("t", "gone")
    assert store.pins() == {"pin of r1", "pin of r2"}


def make_event(message: str, at_s: float, reason: str = "Started") -> EventRecord:
    return EventRecord("t", "chat", "Normal", reason, message, at_s, at_s)


def test_an_event_that_repeats_the_last_is_counted_there(store: Store) -> None:
    store.add_events([make_event("a", 1.0), make_event("a", 2.0), make_event("b", 3.0)])
    store.add_events([make_event("b", 4.0), make_event("a", 5.0)])
    told = store.events("t", "chat")
    assert [(each.message, each.count, each.first_s, each.last_s) for each in told] == [
        ("a", 2, 1.0, 2.0),
        ("b", 2, 3.0, 4.0),
        ("a", 1, 5.0, 5.0),
    ]
    assert [each.message for each in store.events("t", "chat", after_seq=2)] == ["a"]
    assert store.events("other", "chat") == ()


def test_a_unit_keeps_its_newest_events(store: Store) -> None:
    store.add_events(make_event(str(number), float(number)) for number in range(250))
    told = store.events("t", "chat")
    assert [each.message for each in told] == [str(number) for number in range(50, 250)]


def test_events_of_units_that_are_gone_are_forgotten_when_they_are_old(store: Store) -> None:
    put(store, "r1")
    gone = replace(make_event("x", 1.0), name="gone")
    store.add_events([make_event("a", 1.0), gone])
    assert store.forget_events(1.0) == 0
    assert store.forget_events(2.0) == 1
    assert store.events("t", "gone") == ()
    assert len(store.events("t", "chat")) == 1


def test_a_key_alone_revokes_the_others_of_its_name(store: Store) -> None:
    store.add_key(KeyEntry("k1", "h1", "t", "local", 1.0))
    store.add_key(KeyEntry("k2", "h2", "t", "other", 1.0))
    store.add_key(KeyEntry("k3", "h3", "t", "local", 2.0), alone=True)
    assert [key.key_id for key in store.keys_in_force()] == ["k2", "k3"]
    revoked = store.key("k1")
    assert revoked is not None
    assert revoked.revoked_s == 2.0


def test_a_key_id_is_taken_once_and_the_others_stay_in_force(store: Store) -> None:
    store.add_key(KeyEntry("k1", "h1", "t", "local", 1.0))
    with pytest.raises(StoreError, match="'k1'; make another"):
        store.add_key(KeyEntry("k1", "h2", "t", "local", 2.0), alone=True)
    assert [key.secret_hash for key in store.keys_in_force()] == ["h1"]


def test_a_unit_that_is_put_by_many_units_is_listed_by_tenant_and_name(store: Store) -> None:
    for tenant, name in (("b", "x"), ("a", "y"), ("a", "x"), ("a", "x-1")):
        store.put_unit(tenant, name, make_revision("r1"), now_s=1.0)
    listed = [(unit.tenant, unit.name) for unit in store.units()]
    assert listed == [("a", "x"), ("a", "x-1"), ("a", "y"), ("b", "x")]


def test_a_second_control_on_one_postgresql_is_refused(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = server.new_database()
    first = open_store(tmp_path / "x", url)
    with pytest.raises(StoreUnavailable, match="used by another control"):
        open_store(tmp_path / "x", url)
    first.close()
    open_store(tmp_path / "x", url).close()


def test_a_postgresql_that_crashes_is_named_and_is_used_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    with postgres_server() as own:
        url = own.new_database()
        store = open_store(tmp_path / "x", url)
        put(store, "r1")
        own.kill()
        with pytest.raises(StoreUnavailable, match="server runs") as caught:
            put(store, "r2")
        assert caught.value.retryable
        own.start()
        put(store, "r3")
        assert names_of(store.revisions("t", "chat")) == [("r1", 1.0), ("r3", 1.0)]
        store.close()


def test_a_database_that_is_not_there_is_named_without_the_password(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = server.new_database().replace("postgres@/test", "postgres:hush@/nothing")
    with pytest.raises(StoreError, match=r"in store_url|server runs") as caught:
        open_store(tmp_path / "x", url)
    assert "hush" not in str(caught.value)


def test_a_postgresql_that_is_something_elses_is_refused(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = server.new_database()
    server.psql(url, "CREATE TABLE bookmarks (url text)")
    with pytest.raises(StoreError, match="not a store of SITS"):
        open_store(tmp_path / "x", url)
