"""What causality says about the clocks of different hosts: bounds that always hold the truth, and a guess within them.

No rank ends a collective in which all must meet before another has begun it. So for clocks *a* and *b*, with ``offset``
what to add to a clock's stamps, ``offset[b] - offset[a] <= end on a - start on b`` in every collective. All that follows
from these differences is their closure over shortest paths. Nothing else is assumed: not that ends agree, nor that
networks are symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .matching import Rows
from .sweep import Int

FAR = 1 << 60  # no bound; sums of a few stay within 64 bits


@dataclass(frozen=True)
class Meetings:
    """Per match and clock: the last arrival and the first end among the clock's members, -FAR and FAR for none.

    Stamps are counted from ``base``.
    """

    clock: Int  # of each row, as an index
    match: Int  # of each row, -1 where not all members meet
    last_start: Int
    first_end: Int
    base: int


@dataclass(frozen=True)
class Clocks:
    """The clocks of a job against each other, by index."""

    offset: Int  # ns to add, a guess within the bounds, against the first clock that it is linked to
    group: Int  # clocks of one number are linked: bounds exist between them
    most: Int  # most[a, b]: offset[b] - offset[a] is at most this; FAR: no bound

    def error(self, clock: int) -> int | None:
        """Return how far the offset may be from the truth against the first clock, ns; None when not linked to it."""
        if self.group[clock] != self.group[0]:
            return None
        above, below = self.most[0, clock] - self.offset[clock], self.most[clock, 0] + self.offset[clock]
        return int(max(above, below))


def meetings(rows: Rows, match: Int, meets: np.ndarray) -> Meetings:
    """Return who met when, by clock.

    Args:
        rows: The collectives.
        match: Their matches.
        meets: Whether the operation makes all its members meet: none ends before all have begun.
    """
    _, clock = np.unique(rows.clock, return_inverse=True)
    base = int(rows.start.min()) if len(rows.start) else 0
    used = (match >= 0) & meets
    shape = int(match.max(initial=-1)) + 1, int(clock.max(initial=-1)) + 1
    last_start, first_end = np.full(shape, -FAR), np.full(shape, FAR)
    place = match[used], clock[used]
    np.maximum.at(last_start, place, rows.start[used] - base)
    np.minimum.at(first_end, place, rows.end[used] - base)
    return Meetings(clock, np.where(used, match, -1), last_start, first_end, base)


def compare(met: Meetings) -> Clocks:
    """Return the bounds between all clocks, and a guess of their offsets.

    Clocks that no offset fits, because they drift or a match is wrong, are linked to none. The guess is the median by
    which ends of the same collectives differ, held within the bounds; the middle of the bounds without such.
    """
    count = met.last_start.shape[1]
    most = np.full((count, count), FAR)
    for clock in range(count):
        here = met.last_start[:, clock] > -FAR
        if here.any():
            most[:, clock] = (met.first_end[here] - met.last_start[here, clock, None]).min(axis=0)
    most = _closed(np.minimum(most, FAR))
    linked = (most < FAR) & (most.T < FAR)
    group = np.argmax(linked, axis=1) if count else np.empty(0, np.int64)
    offset = np.zeros(count, np.int64)
    for clock, first in enumerate(group):
        low, high = -most[clock, first], most[first, clock]
        both = (met.first_end[:, clock] < FAR) & (met.first_end[:, first] < FAR)
        apart = (met.first_end[:, first] - met.first_end[:, clock])[both]
        offset[clock] = (
            0 if clock == first else np.clip(np.median(apart), low, high) if len(apart) else (low + high) // 2
        )
    return Clocks(offset, group, most)


def _closed(most: Int) -> Int:
    """Return the tightest bounds that follow (Floyd and Warshall); clocks in a contradiction keep none."""
    np.fill_diagonal(most, 0)  # a clock agrees with itself, whatever the last digits of its stamps say
    while True:
        tight = most.copy()
        for via in range(len(tight)):
            tight = np.minimum(tight, tight[:, via, None] + tight[None, via, :])
        tight[tight > FAR // 2] = FAR
        broken = np.diagonal(tight) < 0
        if not broken.any():
            return tight
        most[broken, :] = most[:, broken] = FAR
        np.fill_diagonal(most, 0)
