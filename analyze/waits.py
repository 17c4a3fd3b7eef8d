"""What each rank waited for in a matched collective, and how far the clocks allow saying so.

A collective begins to move data when its last member has arrived. Until then the others wait: that is not the
network's time. ``wait`` + transfer is the recorded duration, to the nanosecond. Bounds hold whatever the clocks are,
within what causality allows, and whichever members were not traced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .clocks import FAR, Clocks, Meetings
from .matching import Rows
from .sweep import Int


@dataclass(frozen=True)
class Waits:
    """A row a collective, as in the rows that were matched. -1: unknown."""

    wait: Int  # the best estimate; unknown when a member was not traced or has no common clock
    least: Int  # bounds of the wait
    most: Int
    late: Int  # the rank that arrived last
    certain: np.ndarray  # whether the clocks leave no doubt about it


def split(rows: Rows, met: Meetings, clocks: Clocks, expected: Int) -> Waits:
    """Split matched collectives into waiting and transfer.

    Unknown stay operations in which not all members meet. Bounds alone are told of matches that lack a member or have
    one whose clock is not linked to the others'.

    Args:
        rows: The collectives.
        met: Who met when.
        clocks: The clocks of ``met``.
        expected: How many members the group of each row has, -1 when unknown.
    """
    wait, least, most, late = (np.full(len(rows.rank), -1, np.int64) for _ in range(4))
    certain = np.zeros(len(rows.rank), bool)
    mine = np.flatnonzero(met.match >= 0)
    if not len(mine):
        return Waits(wait, least, most, late, certain)
    match, clock, start = met.match[mine], met.clock[mine], rows.start[mine] - met.base
    duration = (rows.end - rows.start)[mine]
    whole = _whole(match, clocks.group[clock], expected[mine], len(met.last_start))[match]
    first, last, ended = _reach(met, clocks)
    latest = np.minimum(np.where(whole, last[match, clock], FAR), ended[match, clock])
    most[mine] = np.clip(latest - start, 0, duration)
    least[mine] = np.minimum(np.clip(first[match, clock] - start, 0, duration), most[mine])

    arrival = start + clocks.offset[clock]
    culprit = _last(match, arrival, rows.rank[mine], len(met.last_start))[match]
    estimate = np.clip(arrival[culprit] - arrival, least[mine], most[mine])
    others = np.flatnonzero(culprit != np.arange(len(mine)))
    reach = np.full(len(met.last_start), -FAR)  # how late anyone else may have arrived, on the culprit's clock
    np.maximum.at(reach, match[others], (start + clocks.most[clock[culprit], clock])[others])
    wait[mine] = np.where(whole, estimate, -1)
    late[mine] = np.where(whole, rows.rank[mine][culprit], -1)
    certain[mine] = whole & (start[culprit] > reach[match])
    return Waits(wait, least, most, late, certain)


def _whole(match: Int, group: Int, expected: Int, matches: int) -> np.ndarray:
    """Return for each match whether all members are there, on clocks that are linked."""
    whole = np.ones(matches, bool)
    whole[match[np.bincount(match, minlength=matches)[match] != expected]] = False
    low, high = np.full(matches, FAR), np.full(matches, -1)
    np.minimum.at(low, match, group)
    np.maximum.at(high, match, group)
    return whole & (low == high)


def _reach(met: Meetings, clocks: Clocks) -> tuple[Int, Int, Int]:
    """Return per match and clock, on that clock: the last arrival at the earliest and at the latest, and the first end at the latest."""
    first, last, ended = np.full(met.last_start.shape, -FAR), np.full(met.last_start.shape, -FAR), met.first_end.copy()
    for clock in range(met.last_start.shape[1]):
        arrived = met.last_start[:, clock, None]
        np.maximum(first, arrived - clocks.most[clock], out=first)
        np.maximum(last, arrived + clocks.most[:, clock], out=last)
        np.minimum(ended, met.first_end[:, clock, None] + clocks.most[:, clock], out=ended)
    return first, last, ended


def _last(match: Int, arrival: Int, rank: Int, matches: int) -> Int:
    """Return for each match the place of its last arrival, of equals the lowest rank's; -1 for a match without rows."""
    order = np.lexsort((-rank, arrival, match))
    ends = np.append(np.flatnonzero(np.diff(match[order])), len(order) - 1)
    last = np.full(matches, -1, np.int64)
    last[match[order[ends]]] = order[ends]
    return last
