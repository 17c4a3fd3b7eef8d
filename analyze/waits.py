"""What each rank waited for in a matched collective, and how far the clocks allow saying so.

A collective begins to move data when its last member has arrived. Until then the others wait: that is not the
network's time. ``wait_ns`` + ``transfer_ns`` is the recorded duration, to the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .matching import Rows
from .sweep import Int


class Clock(NamedTuple):
    """A clock against the reference: the true offset is within ``error`` of ``offset`` (ns to add); None: unknown."""

    offset: int | None
    error: int | None


@dataclass(frozen=True)
class Waits:
    """A row a collective, as in the rows that were matched. -1: unknown."""

    wait: Int
    late: Int  # the rank that arrived last
    certain: np.ndarray  # whether the clocks leave no doubt about it


def clocks(rows: Rows, match: Int, meets: np.ndarray) -> dict[int, Clock]:
    """Return the clocks that occur, against the clock of the lowest rank.

    Args:
        rows: The collectives.
        match: Their matches.
        meets: Whether the operation makes all its members meet: none ends before all have begun. From that follow a
            lower and an upper bound of the offset. Ends of one collective agree within the time that it needs once all
            have arrived, which is at most its shortest duration: that is mostly the narrower bound.
    """
    if not len(rows.rank):
        return {}
    reference = int(rows.clock[np.argmin(rows.rank)])
    known = {int(one): Clock(None, None) for one in np.unique(rows.clock)}
    known[reference] = Clock(0, 0)
    used = (match >= 0) & meets
    size = int(match.max(initial=-1)) + 1
    theirs = _extent(rows, match, used & (rows.clock == reference), size)
    shortest = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(shortest, match[used], (rows.end - rows.start)[used])
    for clock in known:
        if clock == reference:
            continue
        own = _extent(rows, match, used & (rows.clock == clock), size)
        both = theirs.there & own.there
        if not both.any():
            continue
        lower = int((theirs.last_start - own.first_end)[both].max())
        upper = int((theirs.first_end - own.last_start)[both].min())
        if lower > upper:
            continue  # the clocks drift, or a match is wrong: no offset fits all
        apart = (theirs.first_end - own.first_end)[both]
        guess = int(np.clip(np.median(apart), lower, upper))
        agreed = int(np.ceil(np.median(shortest[both] + np.abs(apart - guess))))
        known[clock] = Clock(guess, min(agreed, max(upper - guess, guess - lower)))
    return known


class _Extent(NamedTuple):
    there: np.ndarray
    last_start: Int
    first_end: Int


def _extent(rows: Rows, match: Int, which: np.ndarray, size: int) -> _Extent:
    last_start, first_end = np.full(size, np.iinfo(np.int64).min), np.full(size, np.iinfo(np.int64).max)
    np.maximum.at(last_start, match[which], rows.start[which])
    np.minimum.at(first_end, match[which], rows.end[which])
    there = np.zeros(size, bool)
    there[match[which]] = True
    return _Extent(there, np.where(there, last_start, 0), np.where(there, first_end, 0))


def split(rows: Rows, match: Int, meets: np.ndarray, expected: Int, known: dict[int, Clock]) -> Waits:
    """Split matched collectives into waiting and transfer.

    Unknown stay: operations in which not all members meet, matches that lack a member, and those with a member whose
    clock is unknown.

    Args:
        rows: The collectives.
        match: Their matches.
        meets: As in ``clocks``.
        expected: How many members the group of each row has, -1 when unknown.
        known: The clocks.
    """
    count = len(rows.rank)
    wait, late, certain = np.full(count, -1, np.int64), np.full(count, -1, np.int64), np.zeros(count, bool)
    size = int(match.max(initial=-1)) + 1
    offset = np.array([known[int(one)].offset or 0 for one in rows.clock], np.int64)
    error = np.array([known[int(one)].error or 0 for one in rows.clock], np.int64)
    timed = np.array([known[int(one)].offset is not None for one in rows.clock], bool)
    matched = match >= 0
    members = np.bincount(match[matched], minlength=size)
    usable = np.ones(size, bool)
    usable[match[matched & ~(timed & meets)]] = False
    usable[match[matched][members[match[matched]] != expected[matched]]] = False
    mine = np.flatnonzero(matched)
    mine = mine[usable[match[mine]]]
    if not len(mine):
        return Waits(wait, late, certain)
    arrival = rows.start + offset
    order = mine[np.lexsort((-rows.rank[mine], arrival[mine], match[mine]))]  # of equals the lowest rank is last
    ends = np.append(np.flatnonzero(np.diff(match[order])), len(order) - 1)
    last = np.full(size, -1, np.int64)
    last[match[order[ends]]] = order[ends]
    culprit = last[match[mine]]
    wait[mine] = np.minimum(arrival[culprit] - arrival[mine], (rows.end - rows.start)[mine])
    late[mine] = rows.rank[culprit]
    others = mine[mine != culprit]
    latest = np.full(size, np.iinfo(np.int64).min)
    np.maximum.at(latest, match[others], (arrival + error)[others])
    certain[mine] = (arrival - error)[culprit] > latest[match[mine]]
    return Waits(wait, late, certain)
