"""memory_limit and memory_growth: device memory that is nearly full, or that grows step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import Finding, evidence, size

if TYPE_CHECKING:
    from ..run import Run

NEAR_LIMIT = 0.92
LEAST_GROWTH = 0.05  # of the level, over the steps seen
BLOCKS = 10
LEAST_STEPS = 100

LIMIT_SQL = """
    with peaks as (
        select rank, max(reserved) as reserved, max(allocated) as allocated from (
            select rank, reserved, allocated from memory where device <> 'cpu'
            union all
            select rank, reserved, allocated from timer
        ) group by rank
    )
    select rank, reserved, allocated, device_memory, reserved / device_memory as share
    from peaks join ranks using (rank) where device_memory > 0 and reserved is not null order by share desc, rank
"""
# The always-on rows after the first fifth (warm-up), in blocks of equal length: memory that grows does so in every block.
GROWTH_SQL = """
    with levels as (
        select rank, step, coalesce(allocated, rss) as bytes, ntile({blocks}) over (partition by rank order by step) as block
        from timer
        where coalesce(allocated, rss) is not null
            and step >= (select quantile_cont(seen.step, 0.2) from timer seen where seen.rank = timer.rank)
    ),
    blocks as (
        select rank, block, median(bytes) as bytes, min(step) as first_step, max(step) as last_step, count(*) as steps
        from levels group by rank, block
    ),
    rises as (select *, bytes - lag(bytes) over (partition by rank order by block) as rise from blocks)
    select rank, sum(steps)::bigint as steps, count(*) filter (rise > 0) as rising, first(bytes order by block) as from_bytes,
        last(bytes order by block) as to_bytes,
        (last(bytes order by block) - first(bytes order by block))
            / nullif(max(last_step) - min(first_step), 0) * {blocks} / ({blocks} - 1) as bytes_per_step
    from rises group by rank order by bytes_per_step desc, rank
"""


def find(run: Run) -> Iterator[Finding]:
    """Find memory near its limit, and memory that grows."""
    row = first_row(run.con.sql(LIMIT_SQL))
    if row is not None and row[4] >= NEAR_LIMIT:
        rank, reserved, _, limit, share = row
        sql, rows = evidence(run, LIMIT_SQL)
        yield Finding(
            "memory_limit",
            f"Rank {rank} has reserved {size(reserved)} of its device's {size(limit)} at the peak ({share * 100:.1f} %): "
            "the next larger batch may not fit.",
            "Leave headroom: activation checkpointing, a smaller batch, or sharded optimizer state.",
            sql,
            rows,
            confidence="high",
            severity="medium",
            rank=rank,
            step_scope="whole run",
        )
    yield from _growth(run)


def _growth(run: Run) -> Iterator[Finding]:
    query = GROWTH_SQL.format(blocks=BLOCKS)
    for rank, steps, rising, first, last, per_step in run.con.sql(query).fetchall():
        if steps < LEAST_STEPS or rising < BLOCKS - 1 or last < first * (1 + LEAST_GROWTH):
            continue
        sql, rows = evidence(run, query)
        yield _grows(rank, steps, first, last, per_step, sql, rows)


def _grows(rank: int, steps: int, first: float, last: float, per_step: float, sql: str, rows: str) -> Finding:
    return Finding(
        "memory_growth",
        f"Memory of rank {rank} grows by {per_step / 2**20:.3g} MiB a step, from {size(first)} to {size(last)} over {steps} steps, "
        "without a pause.",
        "Something is kept from step to step: a loss added up with its graph (use loss.item() or .detach()), a growing list, "
        "a cache without a bound.",
        sql,
        rows,
        confidence="medium",
        severity="high",
        rank=rank,
        step_scope="always-on steps",
    )
