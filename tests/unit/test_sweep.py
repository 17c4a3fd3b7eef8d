"""The sweep against a clock that ticks: every nanosecond is asked which lanes are active."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.sweep import Elapsed, Intervals, Totals, sweep, union

LANES = 4
INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 25), st.integers(1, 2**LANES - 1)), min_size=0, max_size=25
)


def as_batches(rows, cuts=()):
    rows = sorted(rows, key=lambda row: row[0])
    edges = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    for begin, end in itertools.pairwise(edges):
        part = rows[begin:end]
        yield Intervals(
            np.array([start for start, _, _ in part], np.int64),
            np.array([start + length for start, length, _ in part], np.int64),
            np.array([lanes for _, _, lanes in part], np.int64),
        )


def ticking_mask(rows, moment):
    mask = 0
    for start, length, lanes in rows:
        if start <= moment < start + length:
            mask |= lanes
    return mask


def totals_of(rows, windows, cuts=()):
    totals = Totals(np.array([a for a, _ in windows], np.int64), np.array([b for _, b in windows], np.int64))
    for segments in sweep(as_batches(rows, cuts), LANES):
        totals.add(segments)
    return totals


@given(INTERVALS, st.lists(st.integers(0, 100), max_size=4))
def test_each_moment_has_the_lanes_a_ticking_clock_sees(rows, cuts):
    edges, masks = [], []
    for segments in sweep(as_batches(rows, cuts), LANES):
        if edges:
            assert edges[-1] == segments.edges[0], "segments must follow one another"
            edges.pop()
        edges += segments.edges.tolist()
        masks += segments.masks.tolist()
    assert all(a < b for a, b in itertools.pairwise(edges))
    for begin, end, mask in zip(edges, edges[1:], masks, strict=False):
        for moment in range(begin, end):
            assert ticking_mask(rows, moment) == mask
    covered = [moment for moment in range(90) if ticking_mask(rows, moment)]
    if covered:
        assert edges[0] <= covered[0]
        assert edges[-1] > covered[-1]


@given(
    INTERVALS,
    st.lists(st.integers(0, 100), max_size=4),
    st.lists(st.integers(0, 95), min_size=2, max_size=6, unique=True),
)
def test_the_priority_split_closes_and_matches_the_clock(rows, cuts, points):
    points = sorted(points)
    windows = list(itertools.pairwise(points))
    totals = totals_of(rows, windows, cuts)
    for at, (begin, end) in enumerate(windows):
        split = totals.by_priority(at, LANES)
        expected = [0] * (LANES + 1)
        for moment in range(begin, end):
            mask = ticking_mask(rows, moment)
            first = next((lane for lane in range(LANES) if mask >> lane & 1), LANES)
            expected[first] += 1
        assert split == expected
        assert sum(split) == end - begin


@given(INTERVALS, st.randoms(use_true_random=False), st.integers(-(10**18), 10**18))
def test_order_and_origin_change_nothing(rows, random, shift):
    shuffled = list(rows)
    random.shuffle(shuffled)
    moved = [(start + shift, length, lanes) for start, length, lanes in shuffled]
    here, there = totals_of(rows, [(5, 70)]), totals_of(moved, [(5 + shift, 70 + shift)])
    assert here.by_priority(0, LANES) == there.by_priority(0, LANES)


@given(
    INTERVALS,
    st.lists(st.tuples(st.integers(0, 95), st.integers(0, 20)), min_size=1, max_size=6),
    st.lists(st.integers(0, 100), max_size=3),
)
def test_elapsed_counts_idle_time_of_overlapping_intervals(rows, asked, cuts):
    # The question is only defined between the first and the last interval; frame it as a loader's call frames itself.
    framed = [*rows, *((start, length, 1 << LANES - 1) for start, length in asked)]
    start = np.array([begin for begin, _ in asked], np.int64)
    end = start + np.array([length for _, length in asked], np.int64)
    idle = Elapsed(np.concatenate([start, end]), lambda masks: masks & 0b11 == 0)
    for segments in sweep(as_batches(framed, cuts), LANES):
        idle.add(segments)
    expected = [sum(ticking_mask(framed, t) & 0b11 == 0 for t in range(a, b)) for a, b in zip(start, end, strict=True)]
    assert idle.between(start, end).tolist() == expected


def test_ledger_by_hand():
    # compute [0, 40), communication [30, 60), copy [55, 70), loader [65, 100) in a step [10, 110)
    rows = [(0, 40, 1), (30, 30, 2), (55, 15, 4), (65, 35, 8)]
    assert totals_of(rows, [(10, 110)]).by_priority(0, LANES) == [30, 20, 10, 30, 10]


def test_union_merges_touching_intervals():
    start, end = union(np.array([0, 5, 5, 20]), np.array([5, 9, 7, 21]))
    assert start.tolist() == [0, 20]
    assert end.tolist() == [9, 21]


def test_too_many_lanes_are_refused():
    with pytest.raises(ValueError, match="16 lanes"):
        next(sweep([], 16))
