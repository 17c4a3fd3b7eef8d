"""What was alive when: the allocator's events played back from the end.

A recording begins in the middle of things: blocks are freed whose allocation nobody saw. Played forwards these look
like new or negative memory. Played backwards from what is alive at the end, every block has its whole life: an
allocation ends it (going back), a free begins it, and what is left over was there before the recording. Live bytes
are then sums over a set and cannot be negative.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Replay:
    """The lives of all blocks over a recording of n events.

    Attributes:
        born: The event that allocated a block, -1 when it was there before.
        died: The event that freed it, n when it is alive at the end.
        size: Its bytes.
        address: Its address.
        n: How many events there are.
        unmatched: Events that contradict the others: a second allocation or free of the same block. They are left out.
    """

    born: npt.NDArray[np.int32]
    died: npt.NDArray[np.int32]
    size: Ints
    address: npt.NDArray[np.uint64]
    n: int
    unmatched: int

    @property
    def before(self) -> int:
        """Bytes that were alive when the recording began."""
        return int(self.size[self.born < 0].sum())

    def live(self) -> Ints:
        """Return the live bytes before the first event and after each: n + 1 values."""
        live = np.zeros(self.n + 1, np.int64)
        arrives, leaves = self.born >= 0, self.died < self.n
        live[self.born[arrives] + 1] = self.size[arrives]  # an event has one block
        live[self.died[leaves] + 1] = -self.size[leaves]
        live[0] = self.before
        return np.cumsum(live, out=live)

    def live_at(self, moments: Ints, chosen: npt.NDArray[np.bool_]) -> Ints:
        """Return the live bytes of the ``chosen`` blocks at a few moments, given in order."""
        live = np.zeros(len(moments) + 1, np.int64)
        np.add.at(live, np.searchsorted(moments, self.born[chosen], "right"), self.size[chosen])
        np.subtract.at(live, np.searchsorted(moments, self.died[chosen], "right"), self.size[chosen])
        return np.cumsum(live)[:-1]

    def alive(self, moment: int) -> npt.NDArray[np.bool_]:
        """Return which blocks are alive after ``moment`` events."""
        return (self.born < moment) & (self.died >= moment)


def replay(
    kind: Sequence[int] | npt.NDArray[np.int8],
    address: Sequence[int],
    size: Sequence[int],
    at_end: Mapping[int, int] | None = None,
) -> Replay:
    """Play a recording back.

    Args:
        kind: 1 where the event allocates, -1 where it frees, 0 where it does neither.
        address: The block's address.
        size: Its bytes; where allocation and free of a block tell different sizes the allocation is believed.
        at_end: The blocks alive at the end (address to bytes), None when only the events tell: then a block that was
            there all the time is not seen.
    """
    kinds = array("b", np.asarray(kind, np.int8).tobytes())
    alive = {a: (len(kinds), s) for a, s in (_inferred(kinds, address, size) if at_end is None else at_end).items()}
    born, died, sizes, addresses = array("i"), array("i"), array("q"), array("Q")  # millions of lives: no tuples
    unmatched = 0

    def note(birth: int, death: int, bytes_: int, where: int) -> None:
        born.append(birth)
        died.append(death)
        sizes.append(bytes_)
        addresses.append(where)

    for i in range(len(kinds) - 1, -1, -1):
        what, where = kinds[i], address[i]
        if what > 0:
            known = alive.pop(where, None)
            if known is None:
                unmatched += 1
            else:
                note(i, known[0], size[i], where)
        elif what < 0:
            if where in alive:
                unmatched += 1
            else:
                alive[where] = (i, size[i])
    for where, (death, bytes_) in alive.items():
        note(-1, death, bytes_, where)
    return Replay(
        np.frombuffer(born, np.int32),
        np.frombuffer(died, np.int32),
        np.frombuffer(sizes, np.int64),
        np.frombuffer(addresses, np.uint64),
        len(kinds),
        unmatched,
    )


def _inferred(kinds: Sequence[int], address: Sequence[int], size: Sequence[int]) -> dict[int, int]:
    """Return the blocks that were allocated and not freed any more."""
    alive: dict[int, int] = {}
    for what, where, n in zip(kinds, address, size, strict=True):
        if what > 0:
            alive[where] = n
        elif what < 0:
            alive.pop(where, None)
    return alive
