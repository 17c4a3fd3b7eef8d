"""The priority sweep: from intervals in lanes to exact, disjoint time.

Everything Stepscope says about time comes from one question: *which lanes are active at each moment?* The sweep cuts
time at every start and end into half-open segments and gives each the bit mask of its active lanes. The ledger, device
time and exposed time are sums of segment lengths over masks, in integer nanoseconds, so they close by construction.

Intervals arrive as a stream ordered by start. Between batches only the furthest end of each lane is kept, so memory
depends on the batch and not on the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
MAX_LANES = 15


class Intervals(NamedTuple):
    """Half-open intervals ``[start, end)`` in ns, ordered by start, each in the lanes whose bits ``lanes`` has."""

    start: Int
    end: Int
    lanes: Int


class Segments(NamedTuple):
    """Contiguous stretches of time: ``edges`` (n+1) in ns, and the mask of active lanes of each stretch (n)."""

    edges: Int
    masks: Int


def sweep(batches: Iterable[Intervals], lanes: int) -> Iterator[Segments]:
    """Cut time into segments of constant lane activity.

    Args:
        batches: Intervals ordered by start within and across batches. Empty or reversed intervals take no time.
        lanes: How many lanes the masks may use, at most MAX_LANES.

    Yields:
        Segments that follow one another without gap or overlap from the first start to the last end.
    """
    if lanes > MAX_LANES:
        raise ValueError(f"{lanes} lanes; at most {MAX_LANES}")
    reached = np.full(lanes, np.iinfo(np.int64).min)  # how far each lane's seen intervals extend
    pending: Intervals | None = None
    for batch in batches:
        batch = _proper(batch)
        if not len(batch.start):
            continue
        if pending is not None:
            yield from _cut(pending, reached, until=int(batch.start[0]))
        pending = batch
    if pending is not None:
        yield from _cut(pending, reached, until=None)


def _proper(batch: Intervals) -> Intervals:
    keep = batch.end > batch.start
    return Intervals(batch.start[keep], batch.end[keep], batch.lanes[keep])


def _cut(batch: Intervals, reached: Int, until: int | None) -> Iterator[Segments]:
    """Yield the segments from the batch's first start up to ``until``, and leave in ``reached`` what extends past it."""
    begin = int(batch.start[0])
    starts, ends, bits = [], [], []
    for lane in range(len(reached)):
        mine = (batch.lanes >> lane) & 1 == 1
        start, end = batch.start[mine], batch.end[mine]
        if reached[lane] > begin:
            start, end = np.append(begin, start), np.append(reached[lane], end)
        if not len(start):
            continue
        start, end = union(start, end)
        reached[lane] = max(reached[lane], int(end[-1]))
        starts.append(start)
        ends.append(end)
        bits.append(np.full(len(start), 1 << lane))
    start, end, bit = np.concatenate(starts), np.concatenate(ends), np.concatenate(bits)
    stop = int(end.max()) if until is None else until
    if stop == begin:  # the next batch begins at the same moment, and sweeps what reaches beyond it
        return
    inside = start < stop
    start, end, bit = start[inside], np.minimum(end[inside], stop), bit[inside]
    times = np.concatenate([start, end])
    deltas = np.concatenate([bit, -bit])
    order = np.argsort(times, kind="stable")
    edges, first = np.unique(times[order], return_index=True)
    masks = np.cumsum(np.add.reduceat(deltas[order], first))[:-1]
    if edges[-1] < stop:  # nothing is active until the next batch begins
        edges, masks = np.append(edges, stop), np.append(masks, 0)
    if len(masks):
        yield Segments(edges, masks)


def union(start: Int, end: Int) -> tuple[Int, Int]:
    """Merge intervals that overlap or touch. ``start`` must be ascending."""
    furthest = np.maximum.accumulate(end)
    opens = np.append(True, start[1:] > furthest[:-1])
    closes = np.append(opens[1:], True)
    return start[opens], furthest[closes]


class Totals:
    """Time per window and mask: how long each combination of lanes was active in each window.

    Args:
        start: Starts of disjoint windows, ascending.
        end: Their ends.
    """

    def __init__(self, start: Int, end: Int) -> None:
        self._start, self._end = start, end
        self.ns: dict[int, dict[int, int]] = {}  # window -> mask -> ns; mask 0 only between the first and last edge

    def add(self, segments: Segments) -> None:
        """Add the time of some segments, each part to the window it lies in."""
        edges, masks = segments
        cuts = np.concatenate([self._start, self._end])
        cuts = cuts[(cuts > edges[0]) & (cuts < edges[-1])]
        all_edges = np.unique(np.concatenate([edges, cuts]))
        begin, length = all_edges[:-1], np.diff(all_edges)
        mask = masks[np.searchsorted(edges, begin, side="right") - 1]
        window = np.searchsorted(self._start, begin, side="right") - 1
        inside = (window >= 0) & (begin < self._end[window]) & (length > 0)
        if not inside.any():
            return
        key = window[inside] << MAX_LANES | mask[inside]
        keys, index = np.unique(key, return_inverse=True)
        sums = np.zeros(len(keys), np.int64)
        np.add.at(sums, index, length[inside])
        for one, ns in zip(keys.tolist(), sums.tolist(), strict=True):
            of_window = self.ns.setdefault(one >> MAX_LANES, {})
            mask_of = one & (1 << MAX_LANES) - 1
            of_window[mask_of] = of_window.get(mask_of, 0) + ns

    def where(self, window: int, holds: Callable[[int], bool]) -> int:
        """Return the time in a window whose mask satisfies a condition."""
        return sum(ns for mask, ns in self.ns.get(window, {}).items() if holds(mask))

    def by_priority(self, window: int, lanes: int) -> list[int]:
        """Return the time of each lane in a window where no earlier lane was active, and last the remainder.

        The result sums to the window's length exactly.
        """
        split = [0] * (lanes + 1)
        for mask, ns in self.ns.get(window, {}).items():
            if mask:
                split[(mask & -mask).bit_length() - 1] += ns
        split[lanes] = int(self._end[window] - self._start[window]) - sum(split)
        return split


class Stretches:
    """The longest stretches of time with a property.

    Args:
        holds: The property, asked of an array of masks.
    """

    def __init__(self, holds: Callable[[Int], NDArray[np.bool_]]) -> None:
        self._holds = holds
        self._found: list[tuple[Int, Int]] = []

    def add(self, segments: Segments) -> None:
        """Take the stretches of some segments, in the order in which the sweep yields them."""
        holding = self._holds(segments.masks)
        if holding.any():
            self._found.append(union(segments.edges[:-1][holding], segments.edges[1:][holding]))

    def merged(self) -> tuple[Int, Int]:
        """Return starts and ends of the stretches, ascending; none touches the next."""
        if not self._found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        start, end = (np.concatenate(side) for side in zip(*self._found, strict=True))
        return union(start, end)


class Elapsed:
    """How much time with a property lies between moments: for exposed time of intervals that may overlap.

    Args:
        points: The moments asked about, in any order.
        holds: The property, asked of an array of masks.
    """

    def __init__(self, points: Int, holds: Callable[[Int], NDArray[np.bool_]]) -> None:
        self._points = np.unique(points)
        self._value = np.zeros(len(self._points), np.int64)
        self._holds = holds
        self._total = 0
        self._done = 0

    def add(self, segments: Segments) -> None:
        """Advance over some segments, in the order in which the sweep yields them."""
        edges, masks = segments
        counted = np.where(self._holds(masks), np.diff(edges), 0)
        before = self._total + np.append(0, np.cumsum(counted))
        upto = int(np.searchsorted(self._points, edges[-1], side="right"))
        points = self._points[self._done : upto]
        at = np.clip(np.searchsorted(edges, points, side="right") - 1, 0, len(masks) - 1)
        partial = np.where(self._holds(masks)[at], np.clip(points, edges[0], None) - edges[at], 0)
        self._value[self._done : upto] = before[at] + partial
        self._done, self._total = upto, int(before[-1])

    def between(self, start: Int, end: Int) -> Int:
        """Return the time with the property in each interval ``[start, end)``."""
        self._value[self._done :] = self._total
        at_end = self._value[np.searchsorted(self._points, end)]
        at_start = self._value[np.searchsorted(self._points, start)]
        result: Int = at_end - at_start
        return result
