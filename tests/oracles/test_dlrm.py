"""ORACLES E: eight real ranks of one job, without collective metadata."""

from __future__ import annotations


def test_eight_ranks_by_name_and_content(shared_run):
    run = shared_run("param-dlrm/*.json.gz")
    assert run.coverage() == "8 of 8 ranks"
    assert run.sql("select list(rank order by rank), any_value(rank_source) from sources").fetchall()[0] == (
        list(range(8)),
        "distributedInfo",
    )


def test_nccl_sums_by_rank(shared_run):
    run = shared_run("param-dlrm/*.json.gz")
    rows = run.sql("select rank, count(*), sum(end_ns - start_ns) // 1000 from collectives group by rank order by rank")
    sums = [5798, 11336, 3492, 9774, 6587, 6251, 3558, 1746]
    assert rows.fetchall() == [(rank, 8, us) for rank, us in enumerate(sums)]


def test_orphans_of_ranks_one_and_three(shared_run):
    run = shared_run("param-dlrm/*.json.gz")
    rows = run.sql(
        "select rank, count(*) from events where list_contains(flags, 'orphan') and kind in ('kernel', 'copy', 'memset')"
        " group by rank order by rank"
    ).fetchall()
    assert rows == [(1, 64), (3, 64)]
