"""Matching of collectives over ranks: answers by hand, and what must hold whatever was lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyze.matching import Rows, match

US, MS = 1_000, 1_000_000


def rows(*collectives, seq=None, clock=None) -> Rows:
    """Return rows from (rank, shape, start, end), in ns."""
    rank, shape, start, end = (np.array(column, np.int64) for column in zip(*collectives, strict=True))
    numbers = np.full(len(rank), -1) if seq is None else np.array(seq)
    clocks_of = rank if clock is None else np.array(clock)
    return Rows(rank, clocks_of, np.zeros_like(rank), numbers, shape, shape, start, end)


def job(ranks: int, count: int, seed: int, skew_ns: int = 0):
    """Return the collectives of a job and the truth: which is which. Rank r's clock is ``r * skew_ns`` ahead."""
    random = np.random.default_rng(seed)
    begin = np.cumsum(random.integers(2 * MS, 9 * MS, count))
    late = random.integers(0, MS, (count, ranks))
    transfer = random.integers(50 * US, 200 * US, count)
    shapes = random.integers(0, 3, count)
    told, truth = [], []
    for rank in range(ranks):
        for one in range(count):
            end = begin[one] + late[one].max() + transfer[one] + random.integers(0, 5 * US)
            told.append((rank, shapes[one], begin[one] + late[one, rank] + rank * skew_ns, end + rank * skew_ns))
            truth.append(one)
    return rows(*told), np.array(truth), late


def pick(all_rows: Rows, which) -> Rows:
    return Rows(*(getattr(all_rows, name)[which] for name in Rows.__dataclass_fields__))


def agree(found, truth):
    """Whether two rows have one number exactly when they are one collective; rows without a partner have none."""
    pairs = {}
    for number, one in zip(found, truth, strict=True):
        if number >= 0:
            assert pairs.setdefault(number, one) == one
    for one in np.unique(truth):
        numbers = found[truth == one]
        assert len(set(numbers)) == 1
        assert (numbers[0] < 0) == (len(numbers) == 1)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), ranks=st.integers(2, 5), skew=st.sampled_from([0, 50 * MS, -50 * MS, 7 * MS]))
def test_dropped_events_and_late_windows_shift_nothing(seed, ranks, skew):
    everything, truth, _ = job(ranks, 60, seed, skew)
    random = np.random.default_rng(seed + 1)
    first = random.integers(0, 20, ranks)  # each window starts at a collective of its own
    kept = (random.random(len(truth)) > 0.1) & (truth >= first[everything.rank])
    shuffled = random.permutation(np.flatnonzero(kept))
    agree(match(pick(everything, shuffled)).match, truth[shuffled])


def test_sequence_numbers_decide_where_they_are():
    told = rows((0, 1, 0, 100), (0, 1, 200, 300), (1, 1, 250, 300), (1, 1, 400, 500), seq=[7, 8, 8, 9])
    assert match(told).match.tolist() == [-1, 1, 1, -1]


@pytest.mark.parametrize("period", [5 * MS])
def test_a_strictly_periodic_job_on_far_clocks_is_ambiguous(period):
    told = rows(
        *(
            (rank, 1, i * period + rank * 77 * MS, i * period + rank * 77 * MS + MS)
            for rank in range(2)
            for i in range(60)
        )
    )
    found = match(pick(told, np.arange(120) != 3))
    assert found.ambiguous in ([0], [1])
    assert (found.match < 0).all()
