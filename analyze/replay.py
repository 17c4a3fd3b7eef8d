"""What was alive when: the allocator's events played back from the end.

A recording begins in the middle of things: blocks are freed whose allocation nobody saw. Played forwards these look
like new or negative memory. Played backwards from what is alive at the end, every block has its whole life: an
allocation ends it (going back), a free begins it, and what is left over was there before the recording. Live bytes
are then sums over a set and cannot be negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Addresses = npt.NDArray[np.uint64]


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
    address: Addresses
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
    kind: npt.NDArray[np.int8], address: Addresses, size: Ints, at_end: Mapping[int, int] | None = None
) -> Replay:
    """Play a recording back.

    Args:
        kind: 1 where the event allocates, -1 where it frees, 0 where it does neither.
        address: The block's address.
        size: Its bytes; where allocation and free of a block tell different sizes the allocation is believed.
        at_end: The blocks alive at the end (address to bytes), None when only the events tell: then a block that was
            there all the time is not seen.

    Address by address, going back in time: before an allocation nothing is there, before a free something is. So
    whether an event fits is told by its next neighbour alone, and by ``at_end`` where there is none.
    """
    n = len(kind)
    order = np.flatnonzero(kind)
    order = order[np.argsort(address[order], kind="stable")].astype(np.int32)  # by address, then time
    where, allocates = address[order], kind[order] > 0
    edge = where[1:] != where[:-1]
    first, last = np.append(np.ones(min(len(order), 1), bool), edge), np.append(edge, np.ones(min(len(order), 1), bool))
    there_after = ~np.append(allocates[1:], np.zeros(min(len(order), 1), bool))
    there_after[last] = allocates[last] if at_end is None else _among(where[last], at_end)
    fits = allocates == there_after
    frees = np.flatnonzero(fits & ~allocates)  # those that end a life
    begins = np.flatnonzero((fits & allocates) | (first & ~allocates))
    found = np.searchsorted(frees, begins)
    ends = np.append(frees, 0)[found]
    freed = (found < len(frees)) & (where[ends] == where[begins])
    seen = allocates[begins]  # allocated in the recording, not only freed
    born = np.where(seen, order[begins], -1).astype(np.int32)
    died = np.where(freed, order[ends], n).astype(np.int32)
    told = np.where(seen, order[begins], order[ends])
    sizes, addresses = size[told], where[begins]
    if at_end is not None:
        old = np.flatnonzero(~seen & ~freed)
        sizes[old] = [at_end[a] for a in addresses[old].tolist()]
        still = np.fromiter(at_end, np.uint64, len(at_end))
        still = still[~np.isin(still, where)]
        born = np.append(born, np.full(len(still), -1, np.int32))
        died = np.append(died, np.full(len(still), n, np.int32))
        sizes = np.append(sizes, np.array([at_end[a] for a in still.tolist()], np.int64))
        addresses = np.append(addresses, still)
    return Replay(born, died, sizes, addresses, n, int((~fits).sum()))


def _among(address: Addresses, blocks: Mapping[int, int]) -> npt.NDArray[np.bool_]:
    return np.isin(address, np.fromiter(blocks, np.uint64, len(blocks)))
