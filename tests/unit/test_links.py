"""Latency and bandwidth by hand, and which rank is behind a slow link."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.links import Time, fit, slow_link


def time(members, ns, size=1000, op="all_reduce"):
    return Time("g" + "".join(map(str, members)), op, len(members), size, tuple(members), 4, float(ns), 2)


def test_a_line_by_hand():
    """50 µs and 2 ns a byte: 0.5 GB/s of the buffer; of four ranks each sends 3/2 of it, so 0.75 GB/s on the link."""
    told = fit([time((0, 1, 2, 3), 50_000 + 2 * size, size) for size in (1_000, 10_000, 100_000)])
    assert told["latency_ns"] == pytest.approx(50_000)
    assert told["bandwidth"] == pytest.approx(0.5e9)
    assert told["link_bandwidth"] == pytest.approx(0.75e9)
    assert told["residual"] == pytest.approx(0)


def test_one_odd_size_does_not_bend_the_line():
    sizes = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000]
    told = fit([time((0, 1), (900_000 if size == 4_000 else 50_000 + 2 * size), size) for size in sizes])
    assert told["bandwidth"] == pytest.approx(0.5e9)
    assert told["residual"] > 0.9


@pytest.mark.parametrize("times", [[(1_000, 52_000), (2_000, 54_000)], [(1_000, 9), (2_000, 9), (3_000, 8)]])
def test_two_sizes_or_no_growth_tell_nothing(times):
    told = fit([time((0, 1), ns, size) for size, ns in times])
    assert told["bandwidth"] is told["latency_ns"] is told["link_bandwidth"] is None


MESH = [(0, 1), (2, 3), (0, 2), (1, 3)]


@pytest.mark.parametrize("slow", range(4))
def test_the_rank_that_all_slow_groups_share(slow):
    """Twice as long for both groups with it: of 4 calls in 2 steps, 100 ns each for two groups, 400 ns a step are lost."""
    found = slow_link([time(group, 200 if slow in group else 100) for group in MESH])
    assert (found.rank, found.factor, found.groups, found.others, found.lost_ns) == (slow, 2.0, 2, 2, 400.0)


def test_one_slow_group_does_not_tell_which_of_its_members_it_is():
    assert slow_link([time(group, 200 if group == (0, 1) else 100) for group in MESH]) is None
    assert slow_link([time((0, 1), 200), time((2, 3), 100)]) is None


def test_groups_that_do_different_things_are_not_compared():
    assert slow_link([time((0, 1), 900, size=9000), time((0, 2), 900, op="broadcast"), time((2, 3), 100)]) is None


@given(st.lists(st.floats(1, 1.2), min_size=4, max_size=4))
def test_small_differences_single_out_nobody(noise):
    assert slow_link([time(group, 100 * more) for group, more in zip(MESH, noise, strict=True)]) is None
