"""exposed_communication: collectives that no compute hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import LEAST_SHARE, Finding, evidence, ms, percent, severity
from .shares import category, has_device_work

if TYPE_CHECKING:
    from ..run import Run

# In a CPU-only run the backend's threads share the cores with compute: below this, the scheduler cannot be told from the
# network.
LEAST_ON_CPU = 0.05

# Of a step's exposed communication, what even the rank that waited least spent in each collective: time that no other
# rank's lateness explains. Collectives are told apart by their place in the step.
COMMON_SQL = """
    with placed as (
        select rank, step, exposed_ns, row_number() over (partition by rank, step order by start_ns, event_id) as place
        from capture_collectives semi join counted using (rank, capture) where step is not null
    ),
    least_waits as (select step, place, min(exposed_ns) as ns from placed group by step, place),
    transfers as (select step, sum(ns) as ns from least_waits group by step),
    steps as (
        select l.step, count(*) as ranks, min(l.ns) as least_ns, avg(l.ns) as mean_ns, avg(j.dur_ns) as step_ns
        from judged j join ledger l using (rank, step) where l.category = 'exposed_comm' group by l.step
    ),
    common as (
        select s.*, least(s.least_ns, coalesce(t.ns, s.least_ns)) as common_ns from steps s left join transfers t using (step)
    )
    select count(*) as steps, max(ranks) as ranks, avg(common_ns) as common_ns, avg(mean_ns) as mean_ns,
        avg(step_ns) as step_ns, sum(common_ns) / sum(step_ns) as share, median(common_ns / step_ns) as median_share
    from common where ranks = (select max(ranks) from common)
"""


def find(run: Run) -> Iterator[Finding]:
    """Find communication that is exposed on every rank."""
    if not category(run, "exposed_comm"):
        return
    row = first_row(run.con.sql(COMMON_SQL))
    least = LEAST_SHARE if has_device_work(run) else LEAST_ON_CPU
    if row is None or row[5] is None or min(row[5], row[6]) < least:
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
