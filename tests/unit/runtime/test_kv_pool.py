"""Who shares with whom, and what goes first, on the fake engine."""

from array import array
from pathlib import Path

from sits.runtime.engine import AdapterFile, AdapterSet, Feed, PoolShape
from sits.runtime.kv import Entry, KvPool, Shelf
from sits.testing import FakeEngine, FakeModel, tiny_adapter

SHAPE = PoolShape(sequences=2, sequence_tokens=64, batch_tokens=64, kept=2, cells=128)


class Pool:
    """A pool, its engine and its clock."""

    def __init__(
        self, shape: PoolShape = SHAPE, *, shares: bool = True, shelf: int = 10**6
    ) -> None:
        self.engine = FakeEngine(FakeModel(), shape)
        self.now_us = 0
        self.shelf = Shelf(shelf)
        self.pool = KvPool(self.engine, shares, lambda: self.now_us, self.shelf)

    def run(self, tokens: list[int], adapter: str = "") -> Entry:
        """Begin, and feed all that is not there."""
        self.now_us += 1_000_000
        entry = self.pool.begin(tokens, adapter)
        assert entry is not None
        rest = tokens[len(entry.tokens) :]
        start = len(entry.tokens)
        self.engine.step([Feed(entry.sequence, start, rest)])
        self.pool.fed(entry, rest)
        return entry

    def keep(self, tokens: list[int], adapter: str = "") -> Entry:
        """Run to the end."""
        entry = self.run(tokens, adapter)
        self.pool.end(entry)
        return entry


def words(first: int, count: int = 20) -> list[int]:
    return [first] + [7] * (count - 1)


def test_other_adapters_share_nothing(tmp_path: Path) -> None:
    pool = Pool()
    (tmp_path / "one").write_bytes(tiny_adapter("one"))
    a, b = (AdapterSet((AdapterFile(str(tmp_path / "one"), digest),)) for digest in "ab")
    pool.engine.load_adapters(a)
    pool.engine.load_adapters(b)
    pool.keep(words(1), a.digest)
    assert pool.run(words(1), b.digest).reused == 0
    assert pool.run(words(1), a.digest).reused == 19


def test_a_model_that_shares_nothing_keeps_nothing() -> None:
    pool = Pool(shares=False)
    pool.keep(words(1))
    assert pool.engine.free_cells == SHAPE.room
    assert pool.run(words(1)).reused == 0


def test_the_longest_prefix_is_taken() -> None:
    pool = Pool(PoolShape(sequences=2, sequence_tokens=64, batch_tokens=64, kept=3, cells=256))
    pool.keep([1, *[2] * 19])
    pool.keep([1, *[2] * 9, *[3] * 20])
    assert pool.run([1, *[2] * 9, *[3] * 5, 4]).reused == 15


def test_what_goes_beyond_its_share_is_parked_and_found_again() -> None:
    pool = Pool()
    for first in (1, 2, 3):
        pool.keep(words(first))
    # A quarter of 128 cells holds one of 20 tokens.
    assert len(pool.pool.kept) == 1
    assert pool.pool.parked == 2
    assert pool.run(words(1)).reused == 19


def test_a_full_pool_parks_what_is_used_least() -> None:
    pool = Pool(PoolShape(sequences=2, sequence_tokens=64, batch_tokens=64, kept=3, cells=256))
    pool.keep(words(1))
    pool.keep(words(2))
    for _ in range(5):
        pool.pool.end(pool.run([*words(1), 9]), keep=False)
    assert len(pool.pool.kept) == 2
    assert pool.pool.make_room(256 - 30)
    assert [list(entry.tokens) for entry in pool.pool.kept] == [words(1)]


def test_no_room_is_said_and_nothing_taken() -> None:
    pool = Pool(PoolShape(sequences=2, sequence_tokens=64, batch_tokens=64, kept=0, cells=64))
    first = pool.run(words(1, 40))
    free = pool.engine.free_cells
    assert pool.pool.begin(words(2, 40)) is None
    assert pool.engine.free_cells == free
    pool.pool.end(first, keep=False)
    assert pool.engine.free_cells == 64


def test_the_shelf_holds_so_many_bytes_and_no_more() -> None:
    pool = Pool(shelf=150)
    for first in range(1, 8):
        pool.keep(words(first))
    assert 0 < pool.shelf.bytes <= 150


def test_a_state_that_the_engine_does_not_take_is_computed_anew() -> None:
    pool = Pool()
    for first in (1, 2):
        pool.keep(words(first))
    (parked,) = pool.shelf
    parked.state = b"broken"
    assert pool.run(words(1)).reused == 0


def test_what_several_begin_with_counts_once() -> None:
    pool = Pool(PoolShape(sequences=2, sequence_tokens=64, batch_tokens=64, kept=3, cells=128))
    # A quarter of 128 cells: three of 24 tokens that have 20 in common take 32.
    for last in (1, 2, 3):
        pool.keep([*words(1), last, last, last, last])
    assert len(pool.pool.kept) == 3
    assert pool.engine.free_cells == 128 - 32


def test_a_short_end_behind_what_others_have_is_not_parked() -> None:
    pool = Pool(PoolShape(sequences=2, sequence_tokens=64, batch_tokens=64, kept=3, cells=128))
    for last in range(10, 16):
        pool.keep([*words(1), last, last, last, last])
    assert pool.pool.parked == 0
    assert len(pool.pool.kept) == 3
    assert pool.run([*words(1), 9]).reused == 20


def test_a_long_end_behind_what_others_have_is_parked() -> None:
    shape = PoolShape(sequences=2, sequence_tokens=256, batch_tokens=256, kept=1, cells=1024)
    pool = Pool(shape)
    for last in (10, 11):
        pool.keep([*words(1), *[last] * 64])
    assert pool.pool.parked == 1
    assert pool.run([*words(1), *[10] * 64]).reused == 83


def test_what_can_be_shared_is_said_and_nothing_is_moved() -> None:
    pool = Pool()
    for first in (1, 2, 3):
        pool.keep(words(first))
    assert pool.pool.parked == 2
    assert pool.pool.find(array("i", [*words(1), 5]).tobytes()) == 20
    assert pool.pool.find(array("i", words(3)).tobytes()) == 19
    assert pool.pool.find(array("i", words(3)).tobytes(), "other") == 0
    assert pool.pool.find(array("i", words(4)).tobytes()) == 0
    assert pool.pool.parked == 2


def test_the_more_run_the_less_is_kept_in_cells() -> None:
    shape = PoolShape(sequences=4, sequence_tokens=64, batch_tokens=64, kept=8, cells=512)
    pool = Pool(shape)
    for first in range(1, 6):
        pool.keep(words(first))
    kept = [len(pool.pool.kept)]
    for first in range(11, 14):
        pool.run(words(first))
    for _ in range(5):
        pool.pool.tidy()
        kept.append(len(pool.pool.kept))
    # Of 20 tokens each, where a quarter of the cells is 128, and 42 for each of three that run.
    assert kept == [5, 4, 3, 2, 2, 2]
    assert pool.run(words(1)).reused == 19


def test_what_a_running_request_begins_with_takes_no_cells_of_its_own() -> None:
    shape = PoolShape(sequences=4, sequence_tokens=64, batch_tokens=64, kept=8, cells=128)
    pool = Pool(shape)
    pool.keep(words(1))
    for last in (2, 3, 4):
        pool.run([*words(1), last])
    pool.pool.tidy()
    assert len(pool.pool.kept) == 1
