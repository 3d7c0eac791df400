"""Who works on this machine right now: one file in shared memory, a seat for each worker.

A worker writes its own seat, without a lock or a call of the kernel. Others read it: its template,
to see that it goes on; other workers, to see how many share the cores.

Invariants: a seat is taken under the file's lock, before the fork, and given back by who took
it; so a worker that is killed leaves no seat that looks busy.
"""

import fcntl
import mmap
import os
import struct
from dataclasses import dataclass

from sits.runtime.engine import EngineError

_SEATS = 256
_SEAT = struct.Struct("=IIQQ")  # owner's pid, whether awake, turns of its loop, longest step in us
_SEAT_BYTES = 64
_OWNER = struct.Struct("=I")
_AWAKE = struct.Struct("=I")
_AWAKE_AT = 4


@dataclass(frozen=True)
class Glance:
    """What a seat says.

    Attributes:
        awake: whether its worker has something to do.
        turns: of its loop so far.
        longest_us: how long its longest step is likely to take.
    """

    awake: bool
    turns: int
    longest_us: int


class Board:
    """The seats of a machine's workers.

    Args:
        path: the file; made if it is not there, for this user alone.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._descriptor, _SEATS * _SEAT_BYTES)
        self._map = mmap.mmap(self._descriptor, _SEATS * _SEAT_BYTES)

    def take(self) -> "Seat":
        """Return a seat that nobody has, in the name of this process.

        Raises:
            EngineError: all are taken.
        """
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            for at in range(0, len(self._map), _SEAT_BYTES):
                (owner,) = _OWNER.unpack_from(self._map, at)
                if owner == 0 or not _lives(owner):
                    _SEAT.pack_into(self._map, at, os.getpid(), 0, 0, 0)
                    return Seat(self, self._map, at)
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        raise EngineError(f"all {_SEATS} workers that a machine may have are there; stop some")

    def awake(self) -> int:
        """Return how many workers have something to do; not those whose template was killed."""
        owners = (
            _OWNER.unpack_from(self._map, at)[0]
            for at in range(0, len(self._map), _SEAT_BYTES)
            if _AWAKE.unpack_from(self._map, at + _AWAKE_AT)[0]
        )
        return sum(map(_lives, owners))

    def close(self) -> None:
        """Close the file. Seats are given back before."""
        self._map.close()
        os.close(self._descriptor)


class Seat:
    """One worker's place on the board."""

    def __init__(self, board: Board, memory: mmap.mmap, at: int) -> None:
        self._board = board
        self._map = memory
        self._at = at
        self._turns = 0

    def note(self, *, awake: bool, longest_us: float = 0.0) -> None:
        """Say that the loop has come round, and whether there is something to do."""
        self._turns += 1
        owner = _OWNER.unpack_from(self._map, self._at)[0]
        _SEAT.pack_into(self._map, self._at, owner, awake, self._turns, int(longest_us))

    def glance(self) -> Glance:
        """Return what it says."""
        _owner, awake, turns, longest_us = _SEAT.unpack_from(self._map, self._at)
        return Glance(bool(awake), turns, longest_us)

    def threads(self) -> int:
        """Return how many threads its worker may compute with, alone or beside other workers.

        Alone it may have all cores; of several, each has one. Two that compute with two threads on
        two cores wait for each other's threads, and are ten times slower than with one each.
        """
        return len(os.sched_getaffinity(0)) if self._board.awake() <= 1 else 1

    def give_back(self) -> None:
        """Leave it to another worker."""
        _SEAT.pack_into(self._map, self._at, 0, 0, 0, 0)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
