"""straggler: one rank keeps the others waiting, and what it does meanwhile.

Where collectives are matched over ranks, waiting is charged to the last arriver (view ``blame``). Where they are not,
steps must do: the slowest rank is the one that waits least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import Finding, evidence, ms, percent, severity

if TYPE_CHECKING:
    from ..run import Run

LEAST_WAIT = 0.05  # of the step: ranks that share a machine differ by a little always
CHANCE = 0.001  # how likely mere chance may make one rank the last that often

STRAGGLER_SQL = """
    with waits as (
        select l.rank, l.step, l.ns, j.dur_ns, row_number() over (partition by l.step order by l.ns, l.rank) as place,
            count(*) over (partition by l.step) as ranks
        from judged j join ledger l using (rank, step) where l.category = 'exposed_comm'
    ),
    steps as (
        select step, any_value(rank) filter (place = 1) as late_rank, min(ns) as least_ns, avg(ns) filter (place > 1) as others_ns,
            avg(dur_ns) as step_ns
        from waits where ranks > 1 group by step
    )
    select late_rank, count(*) as late_steps, (select count(*) from steps) as steps,
        (select max(ranks) from waits) as ranks,
        avg(others_ns - least_ns) as kept_waiting_ns, avg(step_ns) as step_ns, sum(others_ns - least_ns) / sum(step_ns) as share
    from steps group by late_rank order by late_steps desc, late_rank
"""


# The rank that most waiting is charged to, the share of it by cause, and in how many steps it is charged most.
BLAME_SQL = """
    with job as (select count(distinct step) as steps, count(distinct rank) as ranks, sum(dur_ns) as all_ns from judged),
    by_step as (select step, late_rank, sum(wait_ns) as wait_ns from blame where late_rank is not null group by all),
    tops as (select step, arg_max(late_rank, wait_ns) as late_rank from by_step group by step),
    causes as (
        select late_rank, cause, sum(exposed_ns) as ns, sum(wait_ns) as wait_ns from blame
        where late_rank is not null group by all
    )
    select late_rank, (select count(*) from tops t where t.late_rank = c.late_rank) as late_steps,
        any_value(steps) as steps, any_value(ranks) as ranks, sum(ns)::bigint as exposed_ns,
        sum(wait_ns)::bigint as rank_ns, any_value(all_ns) / any_value(steps * ranks) as step_ns,
        sum(ns) * any_value(ranks) / (any_value(all_ns) * (any_value(ranks) - 1)) as share,
        arg_max(cause, ns) as cause, max(ns) filter (cause is not null) / sum(ns) as cause_share
    from causes c, job group by late_rank having sum(ns) > 0 order by exposed_ns desc, late_rank
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


def find(run: Run) -> Iterator[Finding]:
    """Find a rank that keeps the others waiting in most steps."""
    if first_row(run.con.sql("select 1 from blame")) is not None:
        yield from _blamed(run)
    else:
        yield from _least_waiting(run)


def _blamed(run: Run) -> Iterator[Finding]:
    row = first_row(run.con.sql(BLAME_SQL))
    if row is None:
        return
    rank, late, steps, ranks, exposed, rank_ns, step, share, cause, cause_share = row
    if ranks < 2 or share < LEAST_WAIT or by_chance(late, steps, ranks) > CHANCE:
        return
    lost = exposed / (steps * (ranks - 1))
    why = f", mostly while it has more {cause.replace('_', ' ')} than the others" if cause and cause_share > 0.5 else ""
    sql, rows = evidence(run, BLAME_SQL)
    yield Finding(
        "straggler",
        f"Rank {rank} keeps the others waiting: it is the last to arrive in {late} of {steps} steps, and each other rank "
        f"waits {ms(lost)} of a {ms(step)} step for it ({percent(share)}; {ms(rank_ns)} of rank time in all){why}.",
        f"{ADVICE.get(cause, 'Look at what it does before its collectives: its data, its batch, its host')}. "
        "At best the others' wait is won.",
        sql,
        rows,
        confidence="high" if why and steps >= 5 else "medium",
        severity=severity(share),
        lost_ns_per_step=round(lost),
        share=share,
        rank=rank,
    )


def _least_waiting(run: Run) -> Iterator[Finding]:
    row = first_row(run.con.sql(STRAGGLER_SQL))
    if row is None:
        return
    rank, late, steps, ranks, waiting, step, share = row
    if share < LEAST_WAIT or by_chance(late, steps, ranks) > CHANCE:
        return
    sql, rows = evidence(run, STRAGGLER_SQL)
    yield Finding(
        "straggler",
        f"Rank {rank} keeps the others waiting: in {late} of {steps} steps it waits least in collectives, and the others wait "
        f"{ms(waiting)} longer, {percent(share)} of a {ms(step)} step.",
        f"Look at what rank {rank} does before its collectives: its data, its batch, its host. At best the others' extra "
        "wait is won.",
        sql,
        rows,
        confidence="medium",
        severity=severity(share),
        lost_ns_per_step=round(waiting),
        share=share,
        rank=rank,
    )


def by_chance(late: int, steps: int, ranks: int) -> float:
    """Return the probability that some rank of equals is last in ``late`` or more of ``steps`` steps (binomial, union bound)."""
    chance = 1 / ranks
    tail = sum(math.comb(steps, k) * chance**k * (1 - chance) ** (steps - k) for k in range(late, steps + 1))
    return min(1.0, ranks * tail)
