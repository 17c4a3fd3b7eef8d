"""Numbers that no healthy trace has: each costs at most its own event or file, never the directory."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from stepscope.api import open_run
from stepscope.pipeline import ingest
from stepscope.reports.json import envelope

from ..support import kineto

INT64_MAX = 2**63 - 1


def opened(tmp_path, events, **header):
    """Ingest the trace beside a healthy one of rank 1 and open the run."""
    kineto.write(tmp_path / "t" / "a.json", events, **header)
    kineto.write(tmp_path / "t" / "b.json", kineto.training(), rank=1, world_size=2)
    with ThreadPoolExecutor(1) as executor:
        ingest(str(tmp_path / "t"), tmp_path / "run", executor=executor)
    return open_run(tmp_path / "run")


def test_a_world_size_of_any_claim_is_told_at_once(tmp_path):
    with opened(tmp_path, kineto.training(), world_size=2**40) as run:
        listed = ", ".join(map(str, range(2, 14)))
        assert run.coverage() == f"2 of {2**40} ranks; missing {listed} and {2**40 - 2 - 12} more"


@pytest.mark.parametrize("base", [INT64_MAX, 2**65, -5, 1.7e18, [1], "²", "9" * 5000])
def test_a_base_that_is_no_moment_is_lost_and_the_other_ranks_is_taken(tmp_path, base):
    with opened(tmp_path, kineto.training(), baseTimeNanoseconds=base) as run:
        assert run.sql("select verdict from sources order by source").fetchall() == [("ok",), ("ok",)]
        start = run.sql("select min(start_ns) from steps where rank = 0").fetchall()
        assert start == [(kineto.BASE_NS + 1_000_000,)]
        assert run.sql("from quality where rank = 0 and rule = 'base_time_lost'").fetchall()


@pytest.mark.parametrize("rank", ["²", "9" * 5000])
def test_digits_that_are_no_number_are_no_rank(tmp_path, rank):
    with opened(tmp_path, kineto.training(), distributedInfo={"rank": rank, "world_size": rank}) as run:
        assert run.sql("select rank, rank_source from sources order by source").fetchall() == [
            (0, "none"),
            (1, "distributedInfo"),
        ]


@pytest.mark.parametrize(
    ("ts", "dur"), [(INT64_MAX // 1000, 900), (1500, 9e15), (9e15, 9e15), (-9e15, 5), (1500, -9e15)]
)
@pytest.mark.parametrize("kind", ["kernel", "cpu_op"])
def test_stamps_that_would_not_add_up_are_no_times(tmp_path, ts, dur, kind):
    """The healthy 4 x 1000 µs steps and 4 x 900 µs of kernels stand as they are; the absurd event has no duration."""
    absurd = [kineto.span(kind, "absurd", ts, dur, stream=stream, correlation=1) for stream in range(8, 12)]
    with opened(tmp_path, kineto.training() + absurd) as run:
        assert run.sql("select count(*), sum(dur_ns) from steps where rank = 0 and complete").fetchall() == [
            (4, 4_000_000)
        ]
        assert run.sql("select sum(sum_ns) from kernels where rank = 0 and name = 'gemm'").fetchall() == [(3_600_000,)]
        told = run.sql("select dur_ns, flags from events where name = 'absurd'").fetchall()
        assert len(told) == 4
        assert all("untimed" in flags or "foreign_clock" in flags for _, flags in told if kind == "kernel")


def test_a_step_number_beyond_counting_is_not_taken(tmp_path):
    with opened(tmp_path, kineto.training(), stepscope={"rank": 0, "first_step": INT64_MAX}) as run:
        assert run.sql("select step from steps where rank = 0 order by step").fetchall() == [(0,), (1,), (2,), (3,)]


def test_what_nobody_foresaw_costs_only_its_file(tmp_path):
    """300 operators of 405 days each: their sum is beyond an int64."""
    events = [{**kineto.span("cpu_op", "a", 1500 + i, 3.5e13), "tid": i} for i in range(300)]
    with opened(tmp_path, events) as run:
        bad, good = run.sql("select verdict, reason, events from sources order by source").fetchall()
        assert bad[0] == "quarantined" and "cannot digest" in bad[1] and bad[2] == 0
        assert good == ("ok", "", 16)
        assert run.coverage() == "1 of 2 ranks; missing 0"


def test_steps_without_time_enter_no_average(tmp_path):
    """A marker of no length, and one inside of another: 0 ns cannot be divided by, nor averaged with 1000 µs."""
    events = [kineto.step(0, 1000, 0), kineto.step(1, 1000, 0), *kineto.launch(1, 1000, 1010, 5)]
    kineto.write(tmp_path / "zero.json", events)
    ingest(str(tmp_path / "zero.json"), tmp_path / "zero")
    with open_run(tmp_path / "zero") as run:
        told = json.loads(json.dumps(envelope(run), allow_nan=False))
        assert told["verdict"].startswith("Cannot tell")
    with opened(tmp_path, kineto.training() + [kineto.step(9, 1200, 100), kineto.step(9, 2200, 100)]) as run:
        assert run.sql("select count(*), avg(dur_ns) from judged where rank = 0").fetchall() == [(4, 1_000_000)]
        assert run.sql("select distinct reason from capture_steps where dur_ns = 0").fetchall() == [
            ("has no time of its own",)
        ]
