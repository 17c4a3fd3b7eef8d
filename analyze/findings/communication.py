"""exposed_communication: bytes on the wire that no compute hides. Waiting for a late rank is not the network's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import LEAST_SHARE, Finding, evidence, ms, percent, severity

if TYPE_CHECKING:
    from ..run import Run

# A step's exposed communication, a rank on average: what moves bytes and what waits for another rank. Of what cannot be
# told apart the rank that has least counts, for more than that can be waiting.
EXPOSED_SQL = """
    with ranks as (
        select rank, step, any_value(j.dur_ns) as dur_ns,
            sum(l.ns) filter (category = 'comm_transfer') as transfer_ns,
            sum(l.ns) filter (category = 'comm_wait') as wait_ns,
            coalesce(sum(l.ns) filter (category = 'exposed_comm'), 0) as untold_ns
        from judged j join ledger l using (rank, step)
        where category in ('comm_transfer', 'comm_wait', 'exposed_comm') group by all
    ),
    steps as (
        select step, count(*) as ranks, avg(dur_ns) as dur_ns, coalesce(avg(transfer_ns), 0) + min(untold_ns) as moving_ns,
            avg(transfer_ns) as transfer_ns, avg(wait_ns) as wait_ns, avg(untold_ns) as untold_ns
        from ranks group by step
    )
    select count(*) as steps, max(ranks) as ranks, avg(dur_ns) as step_ns, avg(moving_ns) as moving_ns,
        sum(moving_ns) / sum(dur_ns) as share, median(moving_ns / dur_ns) as median_share,
        avg(transfer_ns) as transfer_ns, avg(wait_ns) as wait_ns, avg(untold_ns) as untold_ns
    from steps where ranks = (select max(ranks) from steps)
"""


def find(run: Run) -> Iterator[Finding]:
    """Find communication that is exposed and no wait for another rank."""
    row = first_row(run.con.sql(EXPOSED_SQL))
    if row is None or row[4] is None or min(row[4], row[5]) < LEAST_SHARE:
        return
    steps, ranks, step, moving, share, _, _, wait, untold = row
    told = wait is not None and not untold
    if told:
        where = f"waiting for other ranks, {ms(wait)} more, is not counted"
    elif ranks > 1:
        where = f"on every one of {ranks} ranks; not all collectives tell the transfer from waiting for other ranks"
    else:
        where = "this one rank's trace cannot tell the transfer from waiting for other ranks"
    sql, rows = evidence(run, EXPOSED_SQL)
    yield Finding(
        "exposed_communication",
        f"Communication-bound: {ms(moving)} of a {ms(step)} step ({percent(share)}) is communication that no compute hides "
        f"({where}).",
        "Let communication overlap the backward pass: larger DDP buckets (bucket_cap_mb), gradient_as_bucket_view, "
        "FSDP prefetch; or send less: no_sync() while accumulating, bf16 gradients. At best all of it is won.",
        sql,
        rows,
        confidence="low" if steps < 3 else "high" if told else "medium",
        severity=severity(share),
        lost_ns_per_step=round(moving),
        share=share,
    )
