"""slow_link: every group that holds one rank exchanges slower than those without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from ..links import TIMES_SQL, slow_link, times
from .finding import LEAST_SHARE, Finding, evidence, ms, percent, severity
from .shares import mean_step_ns

if TYPE_CHECKING:
    from ..run import Run


def find(run: Run) -> Iterator[Finding]:
    """Find the rank behind a slow link."""
    slow, step = slow_link(times(run.con)), mean_step_ns(run)
    if slow is None or not step:
        return
    exposed = first_row(
        run.con.execute(
            """
            select sum(l.ns) / count(distinct step) from ledger l semi join judged using (rank, step)
            where rank = ? and category in ('exposed_comm', 'comm_transfer', 'comm_wait')
            """,
            [slow.rank],
        )
    )
    lost = min(slow.lost_ns, (exposed and exposed[0]) or 0)
    if lost / step < LEAST_SHARE:
        return
    sql, rows = evidence(run, TIMES_SQL)
    yield Finding(
        "slow_link",
        f"Rank {slow.rank} is behind a slow link: all {slow.groups} groups with it take {slow.factor:.1f} times as long or more "
        f"for the same collective as the {slow.others} without it, {ms(lost)} of a {ms(step)} step ({percent(lost / step)}).",
        f"Compare rank {slow.rank}'s network interface, cable and switch port with the others'; its neighbours on the host tell "
        "whether it is the host's. At best the difference is won.",
        sql,
        rows,
        confidence="high",
        severity=severity(lost / step),
        lost_ns_per_step=round(lost),
        share=lost / step,
        rank=slow.rank,
    )
