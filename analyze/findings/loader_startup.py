"""loader_startup: workers are started anew for every pass over a loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import LEAST_SHARE, Finding, evidence, ms, percent, severity

if TYPE_CHECKING:
    from ..run import Run

# The first pass of a job starts workers in any case, and after the last one nothing waits for their end.
RESTARTS_SQL = """
    with fetched as (
        select rank, session, loader, pass, min(fetch_start_ns) as first_fetch_ns from lineage group by all
    ),
    passes as (
        select rank, end_ns, first_fetch_ns - begun_ns as start_ns,
            row_number() over (partition by rank order by begun_ns) as nth, count(*) over (partition by rank) as passes
        from loader_passes left join fetched using (rank, session, loader, pass)
        where workers > 0 and not persistent
    ),
    restarts as (
        select rank, any_value(passes) as passes,
            sum(case when nth > 1 then start_ns else 0 end) + sum(case when nth < passes then coalesce(end_ns, 0) else 0 end) as ns
        from passes group by rank
    ),
    timed as (
        select rank, count(*) as steps, max(end_ns) - min(start_ns) as wall_ns from timer group by rank
    )
    select rank, passes, ns / (passes - 1) as restart_ns, ns / steps as mean_ns, ns / wall_ns as share
    from restarts join timed using (rank) where passes > 1 and ns is not null order by mean_ns desc, rank
"""


def find(run: Run) -> Iterator[Finding]:
    """Find what starting and ending workers between passes costs, spread over all steps."""
    row = first_row(run.con.sql(RESTARTS_SQL))
    if row is None or row[4] < LEAST_SHARE:
        return
    rank, passes, restart, mean, share = row
    sql, rows = evidence(run, RESTARTS_SQL)
    yield Finding(
        "loader_startup",
        f"Workers are ended and started anew between {passes} passes over loaders: {ms(restart)} each time, {percent(share)} "
        f"of the run, as much as {ms(mean)} a step.",
        "Keep them: DataLoader(persistent_workers=True), for validation loaders too.",
        sql,
        rows,
        confidence="high",
        severity=severity(share),
        lost_ns_per_step=round(mean),
        share=share,
        rank=rank,
        step_scope="always-on steps",
    )
