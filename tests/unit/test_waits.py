"""Clocks and waits across ranks: by hand, and as properties that hold however late ranks are and however they end."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyze.clocks import compare, meetings
from stepscope.analyze.waits import split

from .test_matching import MS, US, rows


def told(table, truth, expected):
    """Return the clocks and waits of rows whose matches are known."""
    met = meetings(table, np.array(truth), np.ones(len(truth), bool))
    clocks = compare(met)
    return met, clocks, split(table, met, clocks, np.full(len(truth), expected))


def uneven(ranks: int, count: int, seed: int):
    """Return collectives of hosts with clocks of their own, and the truth: offsets and waits.

    One rank is always late, another always ends late, sizes differ by orders of magnitude: nothing is symmetric.
    """
    random = np.random.default_rng(seed)
    offset = random.integers(-50 * MS, 50 * MS, ranks)
    offset[0] = 0
    table, truth, waits = [], [], []
    now = 0
    for one in range(count):
        late = random.integers(0, 200 * US, ranks)
        late[seed % ranks] += random.integers(0, 80 * MS)
        ends = late.max() + int(random.choice([20 * US, MS, 90 * MS])) + random.integers(0, 30 * US, ranks)
        ends[(seed + 1) % ranks] += random.integers(0, 10 * MS)  # a slow receiver
        for rank in range(ranks):
            table.append((rank, 1, now + late[rank] - offset[rank], now + ends[rank] - offset[rank]))
            truth.append(one)
            waits.append(late.max() - late[rank])
        now += int(ends.max()) + int(random.integers(MS, 20 * MS))
    return rows(*table), np.array(truth), offset, np.array(waits)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), ranks=st.integers(2, 5), count=st.integers(1, 12), data=st.data())
def test_bounds_hold_the_truth_whatever_is_uneven_or_lost(seed, ranks, count, data):
    table, truth, offset, waits = uneven(ranks, count, seed)
    kept = np.random.default_rng(seed).random(len(truth)) > data.draw(st.sampled_from([0, 0.2]))
    if not kept.any():
        return
    table = type(table)(*(getattr(table, name)[kept] for name in type(table).__dataclass_fields__))
    truth, waits = truth[kept], waits[kept]
    _, clocks, found = told(table, truth, ranks)
    present = np.unique(table.rank)
    for a, first in enumerate(present):
        for b, second in enumerate(present):
            assert offset[second] - offset[first] <= clocks.most[a, b]
            if a == 0 and clocks.group[b] == 0:
                assert -clocks.most[b, a] <= clocks.offset[b] <= clocks.most[a, b]
        error = clocks.error(a)
        assert error is None or abs(offset[first] - offset[present[0]] - clocks.offset[a]) <= error
    members = np.bincount(truth, minlength=count)[truth]
    bounded = found.most >= 0
    assert ((found.least <= waits) & (waits <= found.most))[bounded & (members == ranks)].all()
    # What is lost can only have arrived later: the least that is told of the rest still holds.
    assert (found.least <= waits)[bounded].all()
    assert (found.wait[members < ranks] == -1).all()
    arrival = table.start + offset[table.rank]
    for row in np.flatnonzero(found.certain):
        same = truth == truth[row]
        assert found.late[row] == table.rank[same][np.argmax(arrival[same])]
    told_apart = found.wait >= 0
    assert (found.wait <= table.end - table.start)[told_apart].all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_the_rows_changes_nothing(seed):
    table, truth, _, _ = uneven(3, 8, seed)
    order = np.random.default_rng(seed).permutation(len(truth))
    shuffled = type(table)(*(getattr(table, name)[order] for name in type(table).__dataclass_fields__))
    found, again = told(table, truth, 3)[2], told(shuffled, truth[order], 3)[2]
    for name in ("wait", "least", "most", "late", "certain"):
        assert (getattr(found, name)[order] == getattr(again, name)).all(), name


def test_waits_by_hand():
    """Ranks 0, 1, 2 of one host arrive at 0, 40 and 100 and end at 130, 131 and 128."""
    table = rows((0, 1, 0, 130), (1, 1, 40, 131), (2, 1, 100, 128), clock=[0, 0, 0])
    _, _, found = told(table, [0, 0, 0], 3)
    assert found.wait.tolist() == found.least.tolist() == found.most.tolist() == [100, 60, 0]
    assert found.late.tolist() == [2, 2, 2]
    assert found.certain.all()


def test_of_some_ranks_there_are_bounds():
    """A fourth member was not traced: it came after 100 or before, and no later than 128, when the first one ended."""
    table = rows((0, 1, 0, 130), (1, 1, 40, 131), (2, 1, 100, 128), clock=[0, 0, 0])
    _, _, found = told(table, [0, 0, 0], 4)
    assert found.wait.tolist() == [-1, -1, -1]
    assert found.least.tolist() == [100, 60, 0]
    assert found.most.tolist() == [128, 88, 28]
    assert not found.certain.any()


def test_a_doubt_of_the_clocks_is_told():
    """Clock 1 is between 20 behind and 30 ahead of clock 0: arrivals 10 apart tell nothing, arrivals 100 apart do."""
    table = rows((0, 1, 0, 40), (1, 1, 10, 40), (0, 1, 100, 120), (1, 1, 100, 120), (0, 1, 500, 640), (1, 1, 600, 630))
    _, clocks, found = told(table, [0, 0, 1, 1, 2, 2], 2)
    assert (clocks.most[0, 1], clocks.most[1, 0]) == (20, 20)
    assert found.certain.tolist() == [False] * 4 + [True] * 2
    assert (found.wait[4], found.least[4], found.most[4]) == (100, 80, 120)


def test_hosts_that_never_meet_are_linked_by_those_they_both_meet():
    """Hosts 0 and 1 meet, hosts 1 and 2 meet; host 3 meets nobody."""
    table = rows((0, 1, 0, 10), (1, 1, 5_000, 5_010), (1, 1, 6_000, 6_010), (2, 1, 90, 100), (3, 1, 0, 1))
    _, clocks, _ = told(table, [0, 0, 1, 1, -1], 2)
    assert (clocks.offset[2], clocks.error(2)) == (910, 20)
    assert clocks.error(3) is None
    assert clocks.error(1) == 10


def test_clocks_that_contradict_themselves_are_linked_to_none():
    """By the first collective clock 1 is 100 ahead at most, by the second 900 ahead at least."""
    table = rows((0, 1, 0, 10), (1, 1, 90, 100), (0, 1, 1_000, 1_010), (1, 1, 2_000, 2_010))
    _, clocks, found = told(table, [0, 0, 1, 1], 2)
    assert clocks.error(1) is None
    assert (found.wait == -1).all()
