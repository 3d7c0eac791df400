"""Which sequence a request gets, with what in it already, and what goes when the pool is full.

Invariants:

* A request begins with the longest prefix that any sequence here has, running or kept, or that
  is parked; the last token of its prompt is always computed anew, since its logits are needed.
* Only entries of the same adapter set share. The pool is one tenant's.
* What is needed is never promised twice: `begin` and `make_room` say whether the cells are
  there, and nothing but a step takes any.
* When the pool is full, kept entries go first: to the shelf, least worth first. A running one
  is parked by the batcher alone.
* Kept entries fill at most a share of the cells, and the less the more requests run (`tidy`): idle
  cells slow each row of every step down, and a state from the shelf is back in a hundredth of the
  time that computing it takes.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sits.runtime.engine import Engine, EngineError
from sits.runtime.kv._prefix import longest, most_shared
from sits.runtime.kv._shelf import Parked, Shelf

_KEPT_SHARE = 4
# Less than this is computed as fast as found.
_LEAST_TOKENS = 16
# Of a sequence whose beginning others have, less than this is not worth the copy.
_LEAST_PARKED = 64


@dataclass(eq=False)
class Entry:
    """A sequence, and which tokens its cells hold.

    Attributes:
        tokens: what was fed to it, in order.
        reused: how many of them were found and not computed.
        running: whether a request has it; else it is kept.
        used_us: when it last began something.
        hits: how many requests began with a part of it.
    """

    sequence: int
    adapter: str
    tokens: "array[int]"
    used_us: int
    reused: int = 0
    running: bool = True
    hits: int = 0

    def worth(self, now_us: int) -> float:
        """Return how often it is used, by its age: as `Parked.worth`."""
        return (self.hits + 1) / max(1, now_us - self.used_us)


class KvPool:
    """The sequences of one engine.

    Args:
        shares: whether the model can share prefixes; if not, nothing is kept.
        now_us: a monotonic clock, in microseconds.
        shelf: where states wait.
    """

    def __init__(
        self, engine: Engine, shares: bool, now_us: Callable[[], int], shelf: Shelf
    ) -> None:
        self._engine = engine
        self._shares = shares
        self._now_us = now_us
        self._shelf = shelf
        self._entries: list[Entry] = []
        self._free = list(range(engine.shape.handles - 1, -1, -1))
        self._untidy = False  # what is kept, or who runs, has changed

    @property
    def running(self) -> int:
        """How many sequences requests have."""
        return sum(entry.running for entry in self._entries)

    @property
    def kept(self) -> tuple[Entry, ...]:
        """What is kept in cells."""
        return tuple(entry for entry in self._entries if not entry.running)

    @property
    def parked(self) -> int:
        """How many states are on the shelf."""
        return len(self._shelf)

    def begin(self, tokens: Sequence[int], adapter: str = "") -> Entry | None:
        """Give a request a sequence that has as much of `tokens` as there is; None: no room.

        Args:
            tokens: all that it will be fed before anything is drawn, at least one.
            adapter: digest of its adapter set.
        """
        if self.running >= self._engine.shape.sequences:
            return None
        packed = array("i", tokens)
        source, shared = self._find(packed.tobytes(), adapter)
        if not self.make_room(len(tokens) - shared, spare=source):
            return None
        entry = self._open(adapter, array("i"))
        if source is not None:
            self._engine.copy(source.sequence, entry.sequence, shared)
            source.hits += 1
            source.used_us = self._now_us()
            entry.tokens, entry.reused = packed[:shared], shared
        return entry

    def bring_back(self, tokens: Sequence[int], adapter: str, state: bytes) -> Entry | None:
        """Give a parked request its sequence again; None: no room.

        Raises:
            EngineError: the engine does not take the state; it has to be computed anew.
        """
        if self.running >= self._engine.shape.sequences or not self.make_room(len(tokens) + 1):
            return None
        entry = self._open(adapter, array("i", tokens))
        try:
            self._engine.restore(entry.sequence, len(tokens), state)
        except EngineError:
            self._close(entry)
            raise
        return entry

    def adopt(self, tokens: Sequence[int], adapter: str, state: bytes | memoryview) -> Entry | None:
        """Keep a state that was computed elsewhere; None: no room.

        Raises:
            EngineError: the engine does not take it.
        """
        if not self._shares or not self._spare_handle() or not self.make_room(len(tokens)):
            return None
        entry = self._open(adapter, array("i", tokens))
        entry.running = False
        try:
            self._engine.restore(entry.sequence, len(tokens), state)
        except EngineError:
            self._close(entry)
            raise
        return entry

    def fed(self, entry: Entry, tokens: Sequence[int]) -> None:
        """Note what a step has fed to a request's sequence."""
        entry.tokens.extend(tokens)

    def export(self, entry: Entry) -> bytes:
        """Return a sequence's state."""
        return self._engine.export(entry.sequence)

    def make_room(self, cells: int, spare: Entry | None = None) -> bool:
        """Have so many cells free, parking what is kept but `spare`; False: it is not enough."""
        while self._engine.free_cells < cells:
            victims = [entry for entry in self.kept if entry is not spare]
            if not victims:
                return False
            now_us = self._now_us()
            self._park(min(victims, key=lambda entry: entry.worth(now_us)))
        return True

    def end(self, entry: Entry, *, keep: bool = True) -> None:
        """Take a request's sequence back, and keep what it holds where that is worth it."""
        entry.running = False
        self._untidy = True
        if not (keep and self._shares) or len(entry.tokens) < _LEAST_TOKENS:
            self._close(entry)
            return
        entry.used_us = self._now_us()
        self._drop_covered(entry)
        shape = self._engine.shape
        while len(self.kept) > shape.kept or self._kept_cells() > shape.room // _KEPT_SHARE:
            self._park_least()

    def tidy(self) -> None:
        """Park one of those kept beyond their share, for milliseconds, where there are any."""
        if not self._untidy:
            return
        most = self._engine.shape.room // (_KEPT_SHARE * max(1, self.running))
        if self._kept_cells() > most:
            self._park_least()
        else:
            self._untidy = False

    def find(self, tokens: bytes, adapter: str = "") -> int:
        """Return how many packed tokens, of those that a request needs, there are to be shared."""
        if not self._shares:
            return 0
        shared = longest(self._in_cells(adapter), tokens)[1]
        return min(max(shared, longest(self._on_shelf(adapter), tokens)[1]), most_shared(tokens))

    def holds(self, tokens: Sequence[int], adapter: str = "") -> bool:
        """Return whether any sequence in cells begins so."""
        wanted = array("i", tokens).tobytes()
        return any(held.startswith(wanted) for _, held in self._in_cells(adapter))

    def shutdown(self) -> None:
        """Close every sequence."""
        for entry in list(self._entries):
            self._close(entry)

    def _find(self, wanted: bytes, adapter: str) -> tuple[Entry | None, int]:
        """Return who has the longest prefix, and its tokens; brings a parked one back for it."""
        if not self._shares:
            return None, 0
        most = most_shared(wanted)
        best, shared = longest(self._in_cells(adapter), wanted)
        parked, longer = longest(self._on_shelf(adapter), wanted)
        if parked is not None and min(longer, most) >= shared + _LEAST_TOKENS:
            found = self._unpark(parked)
            if found is not None:
                best, shared = found, longer
            elif best not in self._entries:
                return None, 0  # it was parked to make room
        shared = min(shared, most)
        return (best, shared) if best is not None and shared > 0 else (None, 0)

    def _in_cells(self, adapter: str) -> Iterator[tuple[Entry, bytes]]:
        return ((e, e.tokens.tobytes()) for e in self._entries if e.adapter == adapter)

    def _on_shelf(self, adapter: str) -> Iterator[tuple[Parked, bytes]]:
        return ((p, p.tokens) for p in self._shelf if p.adapter == adapter)

    def _unpark(self, item: Parked) -> Entry | None:
        tokens = array("i")
        tokens.frombytes(item.tokens)
        self._shelf.take(item)
        try:
            entry = self.adopt(tokens, item.adapter, item.state)
        except EngineError:
            return None
        if entry is None:
            self._shelf.put(item, self._now_us())
            return None
        entry.hits = item.hits
        return entry

    def _own(self, entry: Entry) -> int:
        """Return how many of an entry's tokens nobody else in cells begins with."""
        tokens = entry.tokens.tobytes()
        others = (other for other in self._in_cells(entry.adapter) if other[0] is not entry)
        return len(entry.tokens) - longest(others, tokens)[1]

    def _park(self, entry: Entry) -> None:
        """Have an entry's cells free; its state waits on the shelf, where that is worth it."""
        if self._own(entry) >= min(_LEAST_PARKED, len(entry.tokens)):
            state = self._engine.export(entry.sequence)
            item = Parked(entry.tokens.tobytes(), entry.adapter, state, entry.used_us, entry.hits)
            self._shelf.put(item, self._now_us())
        self._close(entry)

    def _drop_covered(self, newest: Entry) -> None:
        """Close what is kept and is no more than the beginning of another."""
        ours = newest.tokens.tobytes()
        for entry in self.kept:
            if entry is newest or entry.adapter != newest.adapter or entry.hits > 1:
                continue
            if ours.startswith(entry.tokens.tobytes()):
                newest.hits += entry.hits
                self._close(entry)

    def _kept_cells(self) -> int:
        """Return how many tokens are kept and in no request; what several have counts once."""
        seen = [entry for entry in self._entries if entry.running]
        cells = 0
        for entry in self.kept:
            same = ((each, each.tokens.tobytes()) for each in seen if each.adapter == entry.adapter)
            cells += len(entry.tokens) - longest(same, entry.tokens.tobytes())[1]
            seen.append(entry)
        return cells

    def _park_least(self) -> None:
        now_us = self._now_us()
        self._park(min(self.kept, key=lambda entry: entry.worth(now_us)))

    def _spare_handle(self) -> bool:
        """Have a sequence free that no running request can need."""
        if len(self.kept) < self._engine.shape.kept:
            return True
        if not self.kept:
            return False
        self._park_least()
        return True

    def _open(self, adapter: str, tokens: "array[int]") -> Entry:
        self._untidy = True
        sequence = self._free.pop()
        self._engine.open(sequence, adapter)
        entry = Entry(sequence, adapter, tokens, self._now_us())
        self._entries.append(entry)
        return entry

    def _close(self, entry: Entry) -> None:
        self._entries.remove(entry)
        self._engine.close(entry.sequence)
        self._free.append(entry.sequence)
