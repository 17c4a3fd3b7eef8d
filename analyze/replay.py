"""What was alive when: the lives of an allocator's blocks, from a recording that begins in the middle of things.

Blocks are freed whose allocation nobody saw. Played forwards from nothing these look like new or negative memory. But
before an allocation nothing is at an address, and before a free something is: so whether an event fits is told by the
next one at its address, or where there is none by what is there at the end. Every block has then its whole life, what
was there before has none of its beginning, and live bytes are sums over a set and cannot be negative.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_PIECE = 1 << 20


@dataclass(frozen=True)
class Replay:
    """The lives of all blocks over a recording of n events.

    Attributes:
        born: The event that allocated a block, -1 when it was there before.
        died: The event that freed it, n when it is alive at the end.
        size: Its bytes.
        tag: What was told of its allocation, -1 where nothing was.
        n: How many events there are.
        unmatched: Events that contradict the others: a second allocation or free of the same block. They are left out.
    """

    born: npt.NDArray[np.int32]
    died: npt.NDArray[np.int32]
    size: Ints
    tag: npt.NDArray[np.int32]
    n: int
    unmatched: int

    @property
    def before(self) -> int:
        """Bytes that were alive when the recording began."""
        return int(self.size[self.born < 0].sum())

    def live(self) -> Ints:
        """Return the live bytes before the first event and after each: n + 1 values."""
        live = np.zeros(self.n + 1, np.int64)
        for part in self._pieces():
            born, died, size = self.born[part], self.died[part], self.size[part]
            live[born[born >= 0] + 1] = size[born >= 0]  # an event has one block
            live[died[died < self.n] + 1] = -size[died < self.n]
        live[0] = self.before
        return np.cumsum(live, out=live)

    def live_at(self, moments: Ints, chosen: npt.NDArray[np.bool_]) -> Ints:
        """Return the live bytes of the ``chosen`` blocks at a few moments, given in order."""
        live = np.zeros(len(moments) + 1, np.int64)
        for part in self._pieces():
            mine, size = chosen[part], self.size[part]
            np.add.at(live, np.searchsorted(moments, self.born[part][mine], "right"), size[mine])
            np.subtract.at(live, np.searchsorted(moments, self.died[part][mine], "right"), size[mine])
        return np.cumsum(live)[:-1]

    def alive(self, moment: int) -> npt.NDArray[np.bool_]:
        """Return which blocks are alive after ``moment`` events."""
        return (self.born < moment) & (self.died >= moment)

    def _pieces(self) -> Iterator[slice]:
        """Cut the blocks into pieces, so that working on them takes little memory beside them."""
        return (slice(first, first + _PIECE) for first in range(0, len(self.size), _PIECE))


class Player:
    """Takes a recording's events one by one, in order, and tells the lives. Memory grows with lives, not with events."""

    def __init__(self) -> None:
        self._born, self._died, self._size, self._tag = array("i"), array("i"), array("q"), array("i")
        self._last: dict[int, tuple[int, int, int, int]] = {}  # address -> birth, size, tag, free (-1: none yet)
        self._unmatched = 0

    def alloc(self, i: int, address: int, size: int, tag: int = 0) -> None:
        """Take an allocation, event number ``i``."""
        last = self._last.get(address)
        if last is not None:
            if last[3] < 0:
                self._unmatched += 1  # allocated twice: the later one is believed
            else:
                self._lived(*last)
        self._last[address] = (i, size, tag, -1)

    def free(self, i: int, address: int, size: int) -> None:
        """Take a free, event number ``i``. Where the sizes differ the allocation's is believed."""
        birth, known, tag, freed = self._last.get(address, (-1, size, -1, -1))
        if freed >= 0:
            self._unmatched += 1  # freed twice: the later one is believed
            known = known if birth >= 0 else size
        self._last[address] = (birth, known, tag, i)

    def lives(self, n: int, at_end: Mapping[int, tuple[int, int]] | None = None) -> Replay:
        """Return the lives of a recording of ``n`` events. The player has played.

        Args:
            n: How many events there were, those not taken included.
            at_end: The blocks that are there at the end (address to bytes and tag), None when only the events tell: then
                a block that was there all the time is not seen.
        """
        for address, (birth, size, tag, freed) in self._last.items():
            there = freed < 0 if at_end is None else address in at_end
            self._unmatched += there == (freed >= 0)
            if there:
                self._lived(birth, *(at_end[address] if at_end and birth < 0 else (size, tag)), n)
            elif freed >= 0:
                self._lived(birth, size, tag, freed)
        for address, told in (at_end or {}).items():
            if address not in self._last:
                self._lived(-1, *told, n)
        self._last.clear()
        born, died, tags = (np.frombuffer(column, np.int32) for column in (self._born, self._died, self._tag))
        return Replay(born, died, np.frombuffer(self._size, np.int64), tags, n, self._unmatched)

    def _lived(self, birth: int, size: int, tag: int, death: int) -> None:
        self._born.append(birth)
        self._died.append(death)
        self._size.append(size)
        self._tag.append(tag)


def replay(kind: Sequence[int], address: Sequence[int], size: Sequence[int]) -> Replay:
    """Play a recording of which only the events tell. ``kind`` is 1 for an allocation, -1 for a free, 0 for neither."""
    player = Player()
    for i, (what, where, n) in enumerate(zip(kind, address, size, strict=True)):
        if what > 0:
            player.alloc(i, where, n)
        elif what < 0:
            player.free(i, where, n)
    return player.lives(len(kind))
