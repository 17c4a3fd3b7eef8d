"""exposed_communication: collectives that no compute hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import LEAST_SHARE, Finding, evidence, ms, percent, severity
from .shares import category

if TYPE_CHECKING:
    from ..run import Run

# Of a step's exposed communication, what even the rank that waited least spent: time that no other rank's lateness explains.
COMMON_SQL = """
    with steps as (
        select l.step, count(*) as ranks, min(l.ns) as common_ns, avg(l.ns) as mean_ns, avg(j.dur_ns) as step_ns
        from judged j join ledger l using (rank, step) where l.category = 'exposed_comm' group by l.step
    )
    select count(*) as steps, max(ranks) as ranks, avg(common_ns) as common_ns, avg(mean_ns) as mean_ns,
        avg(step_ns) as step_ns, sum(common_ns) / sum(step_ns) as share, median(common_ns / step_ns) as median_share
    from steps where ranks = (select max(ranks) from steps)
"""


def find(run: Run) -> Iterator[Finding]:
    """Find communication that is exposed on every rank."""
    if not category(run, "exposed_comm"):
        return
    row = first_row(run.con.sql(COMMON_SQL))
    if row is None or row[5] is None or min(row[5], row[6]) < LEAST_SHARE:
        return
    steps, ranks, common, mean, step, share, _ = row
    sql, rows = evidence(run, COMMON_SQL)
    if ranks > 1:
        where = f"on every one of {ranks} ranks; with waiting for other ranks it is {ms(mean)} on average"
    else:
        where = "this one rank's trace cannot tell the transfer from waiting for other ranks"
    yield Finding(
        "exposed_communication",
        f"Communication-bound: {ms(common)} of a {ms(step)} step ({percent(share)}) is communication that no compute hides "
        f"({where}).",
        "Let communication overlap the backward pass: larger DDP buckets (bucket_cap_mb), gradient_as_bucket_view, "
        "FSDP prefetch; or send less: no_sync() while accumulating, bf16 gradients. At best all of it is won.",
        sql,
        rows,
        confidence="high" if ranks > 1 and steps >= 3 else "medium" if steps >= 3 else "low",
        severity=severity(share),
        lost_ns_per_step=round(common),
        share=share,
    )
