"""straggler: ranks that keep the others waiting, always the same one or each in turn, and what they do meanwhile.

Where collectives are matched over ranks, waiting is charged to the last arriver (view ``blame``). Where they are not, or
clocks leave most of it in doubt, steps must do: the slowest rank is the one that waits least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import Finding, evidence, ms, percent, severity
from .shares import has_device_work

if TYPE_CHECKING:
    from ..run import Run

LEAST_WAIT = 0.05  # of the step: ranks that share a machine differ by a little always
CHANCE = 0.001  # how likely mere chance may make one rank the last that often

# What each other rank waits, and who is charged most of it in how many steps. One row a late rank, the most charged first.
BLAME_SQL = """
    with job as (
        select count(distinct step) as steps, count(distinct rank) as ranks, sum(dur_ns)::double / count(*) as step_ns from judged
    ),
    by_step as (select step, late_rank, sum(exposed_ns) as ns from blame where late_rank is not null group by all),
    tops as (select step, arg_max(late_rank, ns) as late_rank from by_step where ns > 0 group by step),
    causes as (select late_rank, cause, sum(exposed_ns) as ns, sum(wait_ns) as wait_ns from blame group by all)
    select late_rank, (select count(*) from tops t where t.late_rank = c.late_rank) as late_steps,
        any_value(steps) as steps, any_value(ranks) as ranks, sum(wait_ns)::bigint as rank_ns,
        sum(ns) / any_value(steps * (ranks - 1)) as lost_ns, any_value(step_ns) as step_ns,
        sum(ns) / any_value(steps * (ranks - 1) * step_ns) as share,
        arg_max(cause, ns) as cause, max(ns) filter (cause is not null) / sum(ns) as cause_share
    from causes c, job where ranks > 1 group by late_rank having sum(ns) > 0 order by lost_ns desc, late_rank
"""

# The rank that waits least in communication, step by step, and what it has most more of than the others.
LEAST_SQL = """
    with waits as (
        select l.rank, l.step, sum(l.ns) as ns, any_value(j.dur_ns) as dur_ns from judged j join ledger l using (rank, step)
        where l.category in ('exposed_comm', 'comm_wait', 'comm_transfer') group by all
    ),
    placed as (
        select *, row_number() over (partition by step order by ns, rank) as place, count(*) over (partition by step) as ranks
        from waits
    ),
    steps as (
        select step, any_value(rank) filter (place = 1) as late_rank, min(ns) as least_ns, avg(ns) filter (place > 1) as others_ns,
            avg(dur_ns) as step_ns
        from placed where ranks > 1 group by step
    ),
    more as (
        select s.late_rank, l.category, avg(l.ns) filter (l.rank = s.late_rank) - avg(l.ns) filter (l.rank <> s.late_rank) as ns
        from steps s join ledger l using (step) semi join judged using (rank, step)
        where l.category not in ('exposed_comm', 'comm_wait', 'comm_transfer') group by all
    )
    select late_rank, count(*) as late_steps, (select count(*) from steps) as steps, (select max(ranks) from placed) as ranks,
        avg(others_ns - least_ns) as lost_ns, avg(step_ns) as step_ns, sum(others_ns - least_ns) / sum(step_ns) as share,
        (select arg_max(category, ns) from more m where m.late_rank = steps.late_rank and m.ns > 0) as cause
    from steps group by late_rank order by late_steps desc, late_rank
"""

# What a rank's operators take more than the other ranks' on average, ns a step: on the device, else on the host, without
# what they call. The most first.
OPERATORS_SQL = """
    with steps as (select rank, count(*) as steps from capture_steps semi join counted using (rank, capture) group by rank),
    per_step as (
        select o.rank, o.name, sum(coalesce(device_ns, host_self_ns)) / any_value(steps) as ns
        from operators o semi join counted using (rank, capture) join steps using (rank) group by all
    )
    select name, sum(ns) filter (rank = $rank)
        - coalesce(sum(ns) filter (rank <> $rank), 0) / (select count(*) - 1 from steps) as more_ns
    from per_step group by name order by more_ns desc nulls last, name limit 2
"""

ADVICE = {
    "compute": "It computes longer: compare its batch (sequence lengths, samples), its operators and its device's clocks",
    "data_wait": "It waits for its loader: see what is said about data loading, for this rank",
    "host": "Its host is slower: look for other load on its cores, garbage collection, logging",
    "sync": "It waits in synchronising calls: look for .item(), .cpu() or torch.cuda.synchronize() that only it makes",
    "exposed_copy": "It copies longer: pinned memory, its place on the PCIe bus",
    "allocator": "Its allocator calls the device: its memory is fuller than the others'",
    "unexplained": "It stands still with nothing recorded (a sleep, a lock, I/O): profile its Python with a stack sampler",
}

SAME = {  # cause -> the finding that the late rank has for it
    "data_wait": "loader_bound",
    "host": "host_bound",
    "sync": "host_sync",
    "exposed_copy": "exposed_copy",
    "allocator": "allocator_stall",
    "unexplained": "idle_unexplained",
}


def find(run: Run) -> Iterator[Finding]:
    """Find ranks that keep the others waiting."""
    rows = run.con.sql(BLAME_SQL).fetchall()
    charged = [row for row in rows if row[0] is not None]
    if charged and 2 * sum(row[5] for row in charged) >= sum(row[5] for row in rows):
        yield from _blamed(run, charged)
    else:
        yield from _least_waiting(run)


def _blamed(run: Run, charged: list[tuple]) -> Iterator[Finding]:
    rank, late, steps, ranks, rank_ns, lost, step, share, cause, cause_share = charged[0]
    if share >= LEAST_WAIT and by_chance(late, steps, ranks) <= CHANCE:
        sure = cause is not None and cause_share > 0.5
        yield _finding(
            run,
            BLAME_SQL,
            f"Rank {rank} keeps the others waiting: it is the last to arrive in {late} of {steps} steps, and each other rank "
            f"waits {ms(lost)} of a {ms(step)} step for it ({percent(share)}; {ms(rank_ns)} of rank time in all)"
            + (_because(cause) + _operators(run, rank, cause, lost) if sure else ""),
            cause if sure else None,
            "high" if sure and steps >= 5 else "medium",
            lost,
            share,
            rank,
        )
        return
    yield from _in_turn(run, charged)


def _in_turn(run: Run, charged: list[tuple]) -> Iterator[Finding]:
    """Ranks that are late one after another, all with the same cause.

    Without a device an operator's time includes waiting for a core: compute that is longer now here, now there, may be
    the machine's doing and is no cause.
    """
    steps, step = charged[0][2], charged[0][6]
    lost, share = (sum(row[place] for row in charged) for place in (5, 7))
    by_cause: dict[str, float] = {}
    for row in charged:
        if row[8] is not None:
            by_cause[row[8]] = by_cause.get(row[8], 0) + row[5] * row[9]
    cause = max(by_cause, key=lambda one: by_cause[one], default=None)
    if cause is None or share < LEAST_WAIT or by_cause[cause] <= lost / 2 or len(charged) < 2:
        return
    if cause == "compute" and not has_device_work(run):
        return
    listed = ", ".join(f"rank {row[0]} in {row[1]}" for row in charged)
    yield _finding(
        run,
        BLAME_SQL,
        f"The ranks keep each other waiting in turn (of {steps} steps {listed}): in each step the others wait {ms(lost)} of "
        f"{ms(step)} for the last ({percent(share)}){_because(cause)}",
        cause,
        "medium",
        lost,
        share,
        None,
    )


def _least_waiting(run: Run) -> Iterator[Finding]:
    row = first_row(run.con.sql(LEAST_SQL))
    if row is None:
        return
    rank, late, steps, ranks, waiting, step, share, cause = row
    if share < LEAST_WAIT or by_chance(late, steps, ranks) > CHANCE:
        return
    yield _finding(
        run,
        LEAST_SQL,
        f"Rank {rank} keeps the others waiting: in {late} of {steps} steps it waits least in collectives, and the others wait "
        f"{ms(waiting)} longer, {percent(share)} of a {ms(step)} step"
        + (_because(cause) + _operators(run, rank, cause, waiting) if cause else ""),
        cause,
        "medium",
        waiting,
        share,
        rank,
    )


def _because(cause: str) -> str:
    return f", mostly while it has more {cause.replace('_', ' ')} than the others"


def _operators(run: Run, rank: int, cause: str, lost: float) -> str:
    """Name the operators in which a rank computes longer, those that make up a tenth of the loss or more."""
    if cause != "compute":
        return ""
    rows = run.con.execute(OPERATORS_SQL, {"rank": rank}).fetchall()
    named = [f"{name} {ms(more)} more a step" for name, more in rows if more is not None and more >= lost / 10]
    return f" ({', '.join(named)})" if named else ""


def _finding(
    run: Run,
    query: str,
    sentence: str,
    cause: str | None,
    confidence: str,
    lost: float,
    share: float,
    rank: int | None,
) -> Finding:
    sql, rows = evidence(run, query)
    return Finding(
        "straggler",
        f"{sentence}.",
        f"{ADVICE.get(cause or '', 'Look at what it does before its collectives: its data, its batch, its host')}. "
        "At best the others' wait is won.",
        sql,
        rows,
        confidence=confidence,
        severity=severity(share),
        lost_ns_per_step=round(lost),
        share=share,
        rank=rank,
        explains=SAME.get(cause or "", ""),
    )


def by_chance(late: int, steps: int, ranks: int) -> float:
    """Return the probability that some rank of equals is last in ``late`` or more of ``steps`` steps (binomial, union bound)."""
    chance = 1 / ranks
    tail = sum(math.comb(steps, k) * chance**k * (1 - chance) ** (steps - k) for k in range(late, steps + 1))
    return min(1.0, ranks * tail)
