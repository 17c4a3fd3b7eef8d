"""Which collectives of different ranks are one: by sequence number where it is recorded, else by time and shape.

Two recorded collectives are one when they have the same group and sequence number. Without a number they are one when
their group, operation, type and size agree and, on one clock, they end nearest to each other while both are open: no
member of a collective ends it before another has begun. So lost events and windows that start at different
collectives leave gaps and shift nothing. The offset of another host's clock is voted for by all pairs of equal shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .sweep import Int

SLACK_NS = 100_000  # by which stamps of one clock may contradict causality
AGREE_NS = (20_000, 200_000, 1_000_000)  # ends of one collective agree within this, tried in turn: devices, then hosts
QUORUM = 0.25  # of a rank's votes must agree
VOTERS = 32  # collectives of one shape that vote, spread over the window
CLEAR = 0.8  # an offset is ambiguous when another gets this share of its votes


@dataclass(frozen=True)
class Rows:
    """Collectives of all ranks, a row a rank and collective; text columns as numbers."""

    rank: Int
    clock: Int  # ranks of one number share a clock exactly
    group: Int
    seq: Int  # -1: not recorded
    shape: Int  # operation, type and size
    place: Int  # shape and, where the job numbered its steps, the step
    start: Int
    end: Int


@dataclass(frozen=True)
class Matches:
    """The number of the match of each row, -1 for none; and the ranks of groups whose clocks could not be told."""

    match: Int
    ambiguous: list[int]


def match(rows: Rows) -> Matches:
    """Match collectives over ranks; the order of the rows does not matter. A match of one rank alone is none."""
    found = np.full(len(rows.rank), -1, np.int64)
    ambiguous: set[int] = set()
    numbered = np.flatnonzero(rows.seq >= 0)
    count = 0
    if len(numbered):
        order = numbered[
            np.lexsort((rows.start[numbered], rows.rank[numbered], rows.seq[numbered], rows.group[numbered]))
        ]
        same = np.stack([rows.group[order], rows.seq[order], rows.rank[order]])
        repeat = _place_in_run(same)  # coalesced operations share a number: the first matches the first
        _, keys = np.unique(np.stack([same[0], same[1], repeat]), axis=1, return_inverse=True)
        found[order] = keys.reshape(-1)
        count = int(keys.max()) + 1
    for group in np.unique(rows.group[rows.seq < 0]):
        count = _align(rows, np.flatnonzero((rows.group == group) & (rows.seq < 0)), found, count, ambiguous)
    members = np.bincount(found[found >= 0], minlength=count)
    found[(found >= 0) & (members[found] < 2)] = -1
    return Matches(found, sorted(ambiguous))


def _place_in_run(columns: Int) -> Int:
    """Return how many equal columns stand directly before each column."""
    fresh = np.ones(columns.shape[1], bool)
    fresh[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    places = np.arange(columns.shape[1])
    return places - np.maximum.accumulate(np.where(fresh, places, 0))


@dataclass
class _Timeline:
    """The collectives found so far, on the clock of the first rank."""

    number: Int
    shape: Int
    place: Int
    start: Int
    end: Int


def _align(rows: Rows, mine: Int, found: Int, count: int, ambiguous: set[int]) -> int:
    """Match the rows of one group without numbers; returns the next free number."""
    ranks, sizes = np.unique(rows.rank[mine], return_counts=True)
    offsets: dict[int, int] = {}
    line = _Timeline(*(np.empty(0, np.int64) for _ in range(5)))
    for rank in ranks[np.lexsort((ranks, -sizes))]:
        own = mine[rows.rank[mine] == rank]
        clock = int(rows.clock[own[0]])
        if clock not in offsets:
            offset = 0 if not len(line.end) else _offset(line, rows, own)
            if offset is None:
                ambiguous.add(int(rank))
                continue
            offsets[clock] = offset
        start, end = rows.start[own] + offsets[clock], rows.end[own] + offsets[clock]
        pairs = _pair(line, rows.shape[own], start, end)
        new = pairs < 0
        numbers = np.where(new, 0, line.number[pairs] if len(line.number) else 0)
        numbers[new] = count + np.arange(new.sum())
        count += int(new.sum())
        found[own] = numbers
        line.start[pairs[~new]] = np.maximum(line.start[pairs[~new]], start[~new])
        fresh = (numbers, rows.shape[own], rows.place[own], start, end)
        old = (line.number, line.shape, line.place, line.start, line.end)
        line = _Timeline(*(np.concatenate([a, b[new]]) for a, b in zip(old, fresh, strict=True)))
    return count


def _offset(line: _Timeline, rows: Rows, own: Int) -> int | None:
    """Return what to add to a rank's stamps to stand on the timeline, None when two answers are as good."""
    places, ends = rows.place[own], rows.end[own]
    votes, voting = [], 0
    for place in np.intersect1d(places, line.place):
        here = ends[places == place]
        voters = here[np.unique(np.linspace(0, len(here) - 1, VOTERS).astype(np.int64))]
        voting += len(voters)
        votes.append(np.subtract.outer(line.end[line.place == place], voters).reshape(-1))
    if not votes:
        return None
    differences = np.sort(np.concatenate(votes))
    for agree in AGREE_NS:
        reach = np.searchsorted(differences, differences + agree, "right") - np.arange(len(differences))
        best = int(np.argmax(reach))
        window = differences[best : best + reach[best]]
        rivals = reach[(differences < differences[best] - agree) | (differences > window[-1])]
        if reach[best] >= QUORUM * voting and (not len(rivals) or rivals.max() < CLEAR * reach[best]):
            return int(np.median(window))
    near = differences[np.abs(differences) <= AGREE_NS[-1]]  # clocks of a job seldom differ by whole steps
    return int(np.median(near)) if len(near) >= CLEAR * reach[best] else None


def _pair(line: _Timeline, shapes: Int, start: Int, end: Int) -> Int:
    """Return for each of a rank's rows its place in the timeline, -1 for none: mutually nearest ends of one shape."""
    pairs = np.full(len(shapes), -1, np.int64)
    free = np.ones(len(line.end), bool)
    for shape in np.intersect1d(shapes, line.shape):
        while True:
            own, theirs = np.flatnonzero((shapes == shape) & (pairs < 0)), np.flatnonzero((line.shape == shape) & free)
            if not len(own) or not len(theirs):
                break
            own, theirs = own[np.argsort(end[own], kind="stable")], theirs[np.argsort(line.end[theirs], kind="stable")]
            there, back = _nearest(end[own], line.end[theirs]), _nearest(line.end[theirs], end[own])
            mutual = back[there] == np.arange(len(own))
            a, b = own[mutual], theirs[there[mutual]]
            both_open = (start[a] <= line.end[b] + SLACK_NS) & (line.start[b] <= end[a] + SLACK_NS)
            a, b = a[both_open], b[both_open]
            if not len(a):
                break
            pairs[a] = b
            free[b] = False
    return pairs


def _nearest(values: Int, among: Int) -> Int:
    """Return the place of the nearest of ``among`` (sorted) for each value, the earlier one of two."""
    right = np.clip(np.searchsorted(among, values), 0, len(among) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(values - among[left]) <= np.abs(among[right] - values), left, right)
