"""exposed_copy: copies between host and device that neither compute nor communication hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import LEAST_SHARE, Finding, evidence, ms, percent
from .shares import CATEGORY_SQL, category, costs, on_ranks, typical

if TYPE_CHECKING:
    from ..run import Run

KINDS_SQL = """
    select regexp_extract(name, '^Memcpy \\w+( \\([^)]*\\))?') as copy, count(*) as copies, sum(dur_ns) as ns
    from events where kind = 'copy' and dur_ns is not null group by copy order by ns desc
"""


def find(run: Run) -> Iterator[Finding]:
    """Find exposed copies, and say whether their host memory is pageable."""
    shares = category(run, "exposed_copy")
    if not typical(shares, LEAST_SHARE):
        return
    worst = shares[0]
    largest = first_row(run.con.sql(KINDS_SQL))
    pageable = largest is not None and "Pageable" in (largest[0] or "")
    sql, rows = evidence(run, CATEGORY_SQL.format(category="exposed_copy"))
    yield Finding(
        "exposed_copy",
        f"Copy-bound: {ms(worst.mean_ns)} of a {ms(worst.step_ns)} step ({percent(worst.share)}) is copying that nothing hides"
        f"{on_ranks(shares)}" + (f"; of all copies {largest[0]} take longest." if largest and largest[0] else "."),
        (
            "The host memory is pageable: pin_memory=True in the DataLoader and .to(device, non_blocking=True) let the copy "
            "overlap compute. "
            if pageable
            else "Start the copy a batch ahead on a side stream, and keep results on the device until they are needed. "
        )
        + "At best all of it is won.",
        sql,
        rows,
        confidence="high" if worst.steps >= 3 else "low",
        **costs(worst),
    )
