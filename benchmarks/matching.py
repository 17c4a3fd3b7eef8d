"""How long it takes to match and split the collectives of many ranks, each on a clock of its own, without numbers."""

from __future__ import annotations

import time

import numpy as np

from stepscope.analyze.clocks import compare, meetings
from stepscope.analyze.matching import Rows, match
from stepscope.analyze.waits import split

from .result import Figure

COLLECTIVES = 2000
HOW = f"{COLLECTIVES} collectives a rank of three shapes, clocks 50 ms apart, arrivals up to 1 ms apart; best of 3"


def measure() -> tuple[list[Figure], str]:
    """Return the time of 8 and of 64 ranks, and the growth."""
    few, many = (min(_seconds(_job(ranks), ranks) for _ in range(3)) for ranks in (8, 64))
    return [
        Figure("match and split 8 ranks", few, "s", "", HOW),
        Figure("match and split 64 ranks", many, "s", "<= 5", HOW),
        Figure("64 ranks against 8 (8 x the rows)", many / few, "x", "", HOW),
    ], ""


def _seconds(rows: Rows, ranks: int) -> float:
    meets, expected = np.ones(len(rows.rank), bool), np.full(len(rows.rank), ranks)
    begin = time.perf_counter()
    matched = match(rows).match
    met = meetings(rows, matched, meets)
    waits = split(rows, met, compare(met), expected)
    taken = time.perf_counter() - begin
    assert (waits.wait >= 0).all(), "a collective was not matched on every rank"
    return taken


def _job(ranks: int) -> Rows:
    random = np.random.default_rng(0)
    rank, one = (axis.reshape(-1) for axis in np.indices((ranks, COLLECTIVES)))
    begin = np.cumsum(random.integers(2_000_000, 9_000_000, COLLECTIVES))
    late = random.integers(0, 1_000_000, (COLLECTIVES, ranks))
    shape = random.integers(0, 3, COLLECTIVES)[one]
    skew = rank * 50_000_000
    start = begin[one] + late[one, rank] + skew
    end = (begin + late.max(axis=1) + random.integers(50_000, 200_000, COLLECTIVES))[one] + skew
    return Rows(rank, rank, np.zeros_like(rank), np.full_like(rank, -1), shape, shape, start, end)
