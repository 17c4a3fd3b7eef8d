"""straggler: one rank keeps the others waiting. The slowest rank is the one that waits least.

A first version that judges by steps; matching collective by collective is the issue "Communication".
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


def find(run: Run) -> Iterator[Finding]:
    """Find a rank for which the others wait in most steps."""
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
