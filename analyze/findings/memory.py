"""memory_limit and memory_growth: device memory that is nearly full, or that grows step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import Finding, evidence, size

if TYPE_CHECKING:
    from ..run import Run

NEAR_LIMIT = 0.92
LEAST_GROWTH = 0.05  # of the level, over the steps seen
BLOCKS = 10
LEAST_READINGS = 30

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
# The slope is Theil and Sen's over the blocks' medians: the median over all pairs; its 95 % interval is Sen's.
GROWTH_SQL = """
    with levels as (
        select rank, step, coalesce(allocated, rss) as bytes, ntile({blocks}) over (partition by rank order by step) as block
        from timer
        where coalesce(allocated, rss) is not null
            and step >= (select quantile_cont(seen.step, 0.2) from timer seen where seen.rank = timer.rank)
    ),
    blocks as (
        select rank, block, median(bytes) as bytes, avg(step) as step, count(*) as readings, max(step) - min(step) + 1 as steps
        from levels group by rank, block
    ),
    slopes as (
        select rank, list((late.bytes - early.bytes) / (late.step - early.step)
            order by (late.bytes - early.bytes) / (late.step - early.step)) as sorted
        from blocks early join blocks late using (rank) where early.block < late.block group by rank
    ),
    rises as (select *, bytes - lag(bytes) over (partition by rank order by block) as rise from blocks)
    select rank, sum(readings)::bigint as readings, count(*) filter (rise > 0) as rising,
        first(bytes order by block) as from_bytes, last(bytes order by block) as to_bytes, sum(steps)::bigint as steps,
        list_median(any_value(sorted)) as bytes_per_step,
        any_value(sorted)[{outside}] as at_least, any_value(sorted)[len(any_value(sorted)) + 1 - {outside}] as at_most,
        any_value(device_memory) filter (rank in (select rank from timer where allocated is not null)) as device_memory
    from rises join slopes using (rank) join ranks using (rank)
    group by rank order by bytes_per_step desc, rank
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
    query = GROWTH_SQL.format(blocks=BLOCKS, outside=_outside(BLOCKS))
    row = first_row(run.con.sql(query))
    if row is None:
        return
    rank, readings, rising, first, last, steps, per_step, least, most, limit = row
    if readings < LEAST_READINGS or rising < BLOCKS - 1 or last < first * (1 + LEAST_GROWTH):
        return
    sql, rows = evidence(run, query)
    until = (
        f" At this rate the device's {size(limit)} last {(limit - last) / per_step:,.0f} more steps." if limit else ""
    )
    yield Finding(
        "memory_growth",
        f"Memory of rank {rank} grows by {size(per_step)} a step (95 % interval {size(least)} to {size(most)}), "
        f"from {size(first)} to {size(last)} over {steps:,} steps, without a pause.{until}",
        "Something is kept from step to step: a loss added up with its graph (use loss.item() or .detach()), a growing list, "
        "a cache without a bound.",
        sql,
        rows,
        confidence="medium",
        severity="high",
        rank=rank,
        step_scope="always-on steps",
    )


def _outside(n: int) -> int:
    """Return how many of the slopes between n points, sorted, lie below Sen's 95 % interval, plus one."""
    pairs = n * (n - 1) // 2
    return max(1, int((pairs - 1.96 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)) / 2))
