"""Oracle E: eight real ranks without collective metadata. Who is last is known, collective by collective."""

from __future__ import annotations


def test_last_arrivers(shared_run):
    run = shared_run("param-dlrm")
    rows = run.sql(
        "select any_value(late_rank), count(*) from collectives group by match order by min(start_ns)"
    ).fetchall()
    assert rows == [(rank, 8) for rank in (7, 7, 7, 7, 7, 5, 5, 4)]


def test_clocks_agree_as_the_ends_do(shared_run):
    """Ends agree within 7 µs, so no offset is larger; and every interval holds 0."""
    rows = shared_run("param-dlrm").sql("select clock_offset_ns, clock_error_ns from ranks").fetchall()
    assert all(abs(offset) <= 7_000 and abs(offset) <= error for offset, error in rows if error)
    assert len(rows) == 8


def test_the_straggler_waits_least(shared_run):
    run = shared_run("param-dlrm")
    rows = run.sql("select rank from collectives group by rank order by sum(wait_ns) limit 1").fetchall()
    assert rows == [(7,)]
    assert run.sql(
        "select bool_and(holds) from invariants where name in ('waits_split', 'blame_adds_up')"
    ).fetchall() == [(True,)]
