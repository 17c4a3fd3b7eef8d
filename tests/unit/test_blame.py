"""Who is blamed for what, from traces to the finding, on traces whose answer is computed by hand (µs)."""

from __future__ import annotations

import pytest

from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import launch, loader, span, step

STEPS = 12


def reduce(at: int, start: float, kernel: float, end: float, **meta):
    return launch(at, start, kernel, end - kernel, "ncclDevKernel_AllReduce", stream=9, **meta)


@pytest.fixture
def opened(tmp_path):
    """Return a function from each rank's events of a step, and of its clock's lead, to the opened run."""
    runs = []

    def job(*ranks, leads=(0, 0, 0)):
        for rank, (events_of, lead) in enumerate(zip(ranks, leads, strict=False)):
            events = []
            for at in range(STEPS):
                start = 1000.0 + 1000 * at + 13 * at * at + lead
                events += [step(at, start, 1000), *events_of(start, 100 * (at + 1), at)]
            kineto.write(tmp_path / "t" / f"rank{rank}.json", events, rank=rank, world_size=len(ranks))
        ingest(str(tmp_path / "t"), tmp_path / "run")
        runs.append(open_run(tmp_path / "run"))
        return runs[-1]

    yield job
    for run in runs:
        run.close()


def close(start, at):
    """All ranks at once, and short: what tells clocks of different hosts apart to within a microsecond."""
    return reduce(at + 2, start + 998, start + 998.2, start + 998.9)


def early(start, at, _):
    reduced = reduce(at + 1, start + 5, start + 603, start + 998)
    return [loader(start, 1), *launch(at, start, start + 3, 600), *reduced, *close(start, at)]


def slow_data(start, at, _):
    return [
        loader(start, 390),
        *launch(at, start + 391, start + 393, 600),
        *reduce(at + 1, start + 400, start + 993, start + 998),
        *close(start, at),
    ]


def slow_compute(start, at, _):
    """Also tells the operator that launches it."""
    reduced = reduce(at + 1, start + 5, start + 993, start + 998)
    operator = span("cpu_op", "aten::mm", start, 6)
    return [operator, *launch(at, start + 0.5, start + 3, 990), *reduced, *close(start, at)]


@pytest.mark.parametrize(("late", "cause"), [(slow_data, "data_wait"), (slow_compute, "compute")])
@pytest.mark.parametrize("leads", [(0, 0, 0), (0, 50_000, 20_000)])
def test_the_late_rank_and_its_cause(opened, late, cause, leads):
    run = opened(early, late, early, leads=leads)
    assert run.sql("select distinct late_rank, cause, rank, wait_ns from blame order by rank").fetchall() == [
        (1, cause, 0, 390_000),
        (1, cause, 2, 390_000),
    ]
    assert run.sql("select sum(wait_ns) from blame").fetchall() == [(390_000 * 2 * STEPS,)]
    one = run.findings().query("kind == 'straggler'").iloc[0]
    assert (one["rank"], one.lost_ns_per_step, one.confidence) == (1, 390_000, "high")
    assert cause.replace("_", " ") in one.sentence
    assert ("(aten::mm 990 µs more a step)" in one.sentence) == (cause == "compute")


def test_the_way_to_a_collective_is_split_like_the_ledger(opened):
    """After the closing collective of a step 0.1 µs of nothing; then slow data: 390 µs of it, 1 µs of nothing, and so on."""
    run = opened(early, slow_data, early)
    way = """
        select category, a.ns from approaches a join collectives c using (rank, capture, event_id)
        where rank = 1 and step = 3 and c.transfer_ns = 5000 and ns > 0 and category not in ('unexplained', 'host') order by all
    """
    assert run.sql(way).fetchall() == [("compute", 600_000), ("data_wait", 390_000)]
    whole = """
        select count(*) from (
            select any_value(c.start_ns) - sum(a.ns) as begin_ns, any_value(c.rank) as rank
            from approaches a join collectives c using (rank, capture, event_id) group by a.rank, a.capture, a.event_id
        ) anti join (select rank, end_ns as begin_ns from collectives union all select rank, start_ns from steps)
        using (rank, begin_ns)
    """
    assert run.sql(whole).fetchall() == [(0,)]


def test_one_meeting_a_step_leaves_late_ranks_and_clocks_apart_undecided(opened):
    """A clock that is 390 µs behind and a rank that is 390 µs late look the same; who waits least does not."""

    def alone(events_of):
        return lambda start, at, number: events_of(start, at, number)[:-2]

    run = opened(alone(early), alone(slow_compute), alone(early))
    assert run.sql("select distinct late_rank from blame").fetchall() == [(None,)]
    assert run.sql("select min(wait_least_ns), max(wait_most_ns) from collectives").fetchall() == [(0, 395_000)]
    doubts = "select count, effect_ns from quality where rule = 'arrival_uncertain'"
    assert run.sql(doubts).fetchall() == [(STEPS, 390_000 * 2 * STEPS)]
    one = run.findings().query("kind == 'straggler'").iloc[0]
    assert (one["rank"], one.lost_ns_per_step, one.confidence) == (1, 390_000, "medium")
    assert "compute" in one.sentence


def test_ranks_that_are_late_in_turn_are_told_as_such(opened):
    def sometimes(mine):
        return lambda start, at, number: (slow_compute if number % 3 == mine else early)(start, at, number)

    run = opened(*map(sometimes, range(3)))
    assert run.sql("select late_rank, count(distinct step) from blame group by 1 order by 1").fetchall() == [
        (0, 4),
        (1, 4),
        (2, 4),
    ]
    one = run.findings().query("kind == 'straggler'").iloc[0]
    assert one.isna()["rank"]
    assert one.lost_ns_per_step == 390_000
    assert "in turn" in one.sentence
    assert "compute" in one.sentence


def test_a_missing_rank_leaves_the_split_unknown(opened, tmp_path):
    run = opened(early, slow_compute, early)
    run.close()
    (tmp_path / "t" / "rank2.json").unlink()
    ingest(str(tmp_path / "t"), tmp_path / "partial")
    with open_run(tmp_path / "partial") as partial:
        assert partial.sql("select count(wait_ns), count(match) from collectives").fetchall() == [(0, 4 * STEPS)]
        rows = partial.sql("select count from quality where rule = 'collectives_unsplit'").fetchall()
        assert rows == [(4 * STEPS,)]


def test_ranks_out_of_step_are_told(opened):
    def numbered(size):
        meta = {"Collective name": "allreduce", "dtype": "Float", "Process Group Name": "0", "Group size": 2}

        def events(start, at, number):
            elements = size if number == 5 else 8
            return reduce(at, start, start + 5, start + 900, **meta, Seq=number, **{"In msg nelems": elements})

        return events

    run = opened(numbered(8), numbered(16))
    rows = run.sql("select count, sentence from quality where rule = 'collective_mismatch'").fetchall()
    assert [count for count, _ in rows] == [1]
    assert "first in #5 of group 0" in rows[0][1]
