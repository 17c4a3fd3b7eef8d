"""Buckets, all-to-all balance and links from traces to answers, by hand (µs)."""

from __future__ import annotations

import pytest

from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import launch, step

STEPS = 4


def collective(at, start, dur, name, seq, elements):
    meta = {"Collective name": name, "dtype": "Float", "Process Group Name": "0", "Group size": 2, "Seq": seq}
    meta |= {"In msg nelems": elements, "Out msg nelems": elements}
    return launch(at, start - 6, start, dur, "ncclDevKernel_" + name, stream=9, **meta)


def events(rank):
    """A step: compute 0-400; reductions at 300-380 and 410-450; an all-to-all at 500-520 to which rank 1 gives thrice as much."""
    told = []
    for n in range(STEPS):
        start, at = 1000.0 + 1000 * n, 100 * (n + 1)
        told += [step(n, start, 900), *launch(at, start, start + 1, 400)]
        told += collective(at + 1, start + 300, 80, "allreduce", 10 * n, 1000)
        told += collective(at + 2, start + 410, 40, "allreduce", 10 * n + 1, 500)
        told += collective(at + 3, start + 500, 20, "all_to_all", 10 * n + 2, 100 + 200 * rank)
    return told


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    for rank in range(2):
        kineto.write(folder / "t" / f"rank{rank}.json", events(rank), rank=rank, world_size=2)
    ingest(str(folder / "t"), folder / "run")
    with open_run(folder / "run") as opened:
        yield opened


def test_only_the_last_bucket_is_exposed(run):
    rows = run.query("buckets").project("place, bytes, calls, begins_ns, ends_ns, exposed_ns").fetchall()
    assert rows == [(1, 4000, 8, 300_000, 380_000, 0), (2, 2000, 8, 410_000, 450_000, 40_000)]


def test_the_fullest_rank_of_all_to_alls(run):
    """1200 bytes against a mean of (400 + 1200) / 2."""
    rows = run.query("all_to_all_balance").project("rank, calls, most_times, mean_bytes, imbalance").fetchall()
    assert rows == [(1, 4, 4, 800.0, 1.5)]


def test_two_sizes_are_told_without_a_fit(run):
    rows = run.sql("select op, sizes, smallest, largest, bandwidth from fits order by op").fetchall()
    assert rows[0] == ("all_reduce", 2, 2000, 4000, None)
    assert [row[0] for row in rows] == ["all_reduce", "all_to_all"]
    points = run.query("link_points").project("op, bytes, ns").fetchall()
    assert points[:2] == [("all_reduce", 2000, 40_000), ("all_reduce", 4000, 80_000)]
