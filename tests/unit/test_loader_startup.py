"""Workers started anew for every pass: what that costs, worked out by hand."""

from __future__ import annotations

import pytest

from stepscope.analyze.findings import loader_startup
from tests.support.fake_run import MS, FakeRun


def run_of(passes, persistent=False):
    """A run of 10 steps of 100 ms and of passes told as ms: begun, first fetch, exhausted, end of the last request."""
    run = FakeRun()
    run.con.execute("delete from timer")
    for step in range(10):
        run.con.execute(
            "insert into timer by name select 0 as rank, ? as step, ? as start_ns, ? as end_ns",
            [step, step * 100 * MS, (step + 1) * 100 * MS],
        )
    for n, (begun, fetch, exhausted, end) in enumerate(passes):
        run.con.execute(
            "insert into loader_passes by name select 0 as rank, 's' as session, ? as loader, 0 as pass, 2 as workers, "
            "? as persistent, ? as begun_ns, ? as exhausted_ns, ? as end_ns",
            [f"s/{n}", persistent, begun * MS, exhausted * MS, (end - exhausted) * MS],
        )
        run.con.execute(
            "insert into lineage by name select 0 as rank, 's' as session, ? as loader, 0 as pass, ? as fetch_start_ns",
            [f"s/{n}", fetch * MS],
        )
    return run


PASSES = [(0, 40, 290, 300), (300, 330, 590, 610), (610, 660, 990, 1000)]


def test_restarts_between_passes_are_spread_over_the_steps():
    # Between the first two passes 10 + 30 ms, between the last two 20 + 50; the first start and the last end do not count.
    [found] = loader_startup.find(run_of(PASSES))
    assert found.kind == "loader_startup"
    assert found.lost_ns_per_step == 110 * MS // 10
    assert found.share == pytest.approx(0.11)
    assert "between 3 passes" in found.sentence
    assert "55.0 ms each time" in found.sentence


def test_persistent_workers_and_a_single_pass_lose_nothing():
    assert list(loader_startup.find(run_of(PASSES, persistent=True))) == []
    assert list(loader_startup.find(run_of(PASSES[:1]))) == []
