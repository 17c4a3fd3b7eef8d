"""host_bound, host_sync, allocator_stall: the device is idle while the host launches, waits or allocates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.names import pattern
from ...ingest.rows import first_row
from .finding import LEAST_SHARE, Finding, evidence, ms, percent
from .shares import CATEGORY_SQL, category, costs, has_device_work, on_ranks, typical

if TYPE_CHECKING:
    from ..run import Run

CALLS_SQL = """
    select name, count(*) as calls, sum(dur_ns) as ns from events
    where kind = 'runtime' and regexp_matches(name, '{pattern}') and step is not null group by name order by ns desc
"""
LAUNCHES_SQL = """
    select count(*) / count(distinct (rank, step)), median(dur_ns) from events where kind = 'kernel' and step is not null
"""


def find(run: Run) -> Iterator[Finding]:
    """Find idle device time that the host spends issuing work."""
    shares = category(run, "host")
    if not has_device_work(run) or not typical(shares, LEAST_SHARE):
        return
    worst = shares[0]
    launches, median_ns = first_row(run.con.sql(LAUNCHES_SQL)) or (None, None)
    detail = f"; {launches:.0f} kernels a step, half of them under {ms(median_ns)}" if launches and median_ns else ""
    sql, rows = evidence(run, CATEGORY_SQL.format(category="host"))
    yield Finding(
        "host_bound",
        f"Host-bound: the device is idle for {ms(worst.mean_ns)} of a {ms(worst.step_ns)} step ({percent(worst.share)}) while "
        f"the host runs operators and launches{on_ranks(shares)}{detail}.",
        "Launch less often: torch.compile or CUDA graphs, fused optimizers (fused=True), a larger batch; take .item() and "
        "other synchronising calls out of the step. At best all of it is won.",
        sql,
        rows,
        confidence="medium" if worst.steps >= 3 else "low",
        **costs(worst),
    )


def find_sync(run: Run) -> Iterator[Finding]:
    """Find idle device time that the host spends in synchronising calls."""
    yield from _in_calls(
        run,
        "host_sync",
        "sync",
        "The host waits in synchronising calls while the device is idle",
        "Find the .item(), .cpu(), print or torch.cuda.synchronize() in the step and move it out, or do it every n steps.",
    )


def find_allocator(run: Run) -> Iterator[Finding]:
    """Find idle device time that the host spends allocating or freeing device memory."""
    yield from _in_calls(
        run,
        "allocator_stall",
        "allocator",
        "The host allocates or frees device memory while the device is idle",
        "The caching allocator should do this in the first steps only: keep shapes stable, warm up before measuring, avoid "
        "torch.cuda.empty_cache() in the step, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    )


def _in_calls(run: Run, kind: str, category_name: str, what: str, advice: str) -> Iterator[Finding]:
    shares = category(run, category_name)
    if not typical(shares, LEAST_SHARE):
        return
    worst = shares[0]
    sql, rows = evidence(run, CALLS_SQL.format(pattern=pattern("runtime", category_name)))
    yield Finding(
        kind,
        f"{what}: {ms(worst.mean_ns)} of a {ms(worst.step_ns)} step, {percent(worst.share)}{on_ranks(shares)}.",
        advice,
        sql,
        rows,
        confidence="medium" if worst.steps >= 3 else "low",
        **costs(worst),
    )
