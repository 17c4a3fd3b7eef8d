"""Numbers that the report shows, worked out by hand from what was recorded."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscope.api import open_run
from stepscope.ingest.schema import TIMER
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import BASE_NS, launch, loader, span, step


def test_steps_without_a_request_count_in_the_share_of_waiting(tmp_path):
    """Four steps of 100 µs, two of which asked for a batch and waited 40 and 20 µs: 60 of 400 µs, 15 µs a step."""
    rows = [
        {
            "rank": 0,
            "session": "s",
            "step": at,
            "start_ns": BASE_NS + at * 100_000,
            "end_ns": BASE_NS + (at + 1) * 100_000,
        }
        | ({"wait_start_ns": BASE_NS + at * 100_000, "wait_ns": wait} if wait else {})
        for at, wait in enumerate([40_000, None, 20_000, None])
    ]
    ingest(str(kineto.write(tmp_path / "rank0.json", kineto.training())), tmp_path / "run")
    folder = tmp_path / "run" / "timer" / "rank=00000"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TIMER), folder / "s.parquet")
    with open_run(tmp_path / "run") as run:
        assert run.query("headline").project("timed_steps, timed_wait").fetchall() == [(4, pytest.approx(0.15))]
        shown = run.query("loading_timer").project("steps, mean_wait_ns, wait, worst_wait_ns, worst_step").fetchall()
    assert shown == [(4, 15_000, pytest.approx(0.15), 40_000, 0)]


def test_nothing_adds_up_waits_of_captures_that_conflict(tmp_path):
    for at, name in enumerate("ab"):
        events = [step(0, 1000 + at, 1000), loader(1000 + at, 100 + at), *launch(1, 1200, 1300, 100)]
        kineto.write(tmp_path / "t" / f"{name}.json", events)
    ingest(str(tmp_path / "t"), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        assert run.query("loading_ranks").project("batches, mean_wait_ns").fetchall() == [(1, 100_000)]
        assert run.query("loading_worst").project("wait_ns").fetchall() == [(100_000,)]


def test_work_of_another_clock_says_what_it_would_have_added(tmp_path):
    hours = 7_200_000_000.0
    events = [step(0, 0, 1000), *launch(1, 50, 60, 200), span("kernel", "gemm", hours, 30, correlation=2)]
    ingest(str(kineto.write(tmp_path / "rank0.json", events)), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        rows = run.sql("select rule, count, effect_ns from quality where rule = 'foreign_clock'").fetchall()
        assert rows == [("foreign_clock", 1, 30_000)]
        assert run.sql("select busy_ns from device_time where policy = 'all'").fetchall() == [(200_000,)]


def test_a_single_step_leaves_nothing_to_hold_apart(tmp_path):
    ingest(str(kineto.write(tmp_path / "rank0.json", kineto.training(1))), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        rows = run.sql("select holds, checked, worst_ns from invariants where name = 'steps_apart'").fetchall()
    assert rows == [(None, 0, None)]
