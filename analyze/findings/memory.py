"""memory_limit and memory_growth: device memory that is nearly full, or that grows step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...ingest.rows import first_row
from ..query import query_text, rows_of
from .finding import Finding, evidence, percent, size

if TYPE_CHECKING:
    from ..run import Run

Row = dict[str, Any]
NEAR_LIMIT = 0.92
LEAST_GROWTH = 0.05  # of the level, over the steps seen
BLOCKS = 10
LEAST_READINGS = 30

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
    query = query_text("memory_headroom")
    for row in rows_of(run.con.sql(query))[:1]:
        if row["share"] >= NEAR_LIMIT:
            yield _limit(row, *evidence(run, query))
    yield from _growth(run)


def _limit(row: Row, sql: str, rows: str) -> Finding:
    told = "the next larger batch may not fit."
    if row["fits"] is not None:
        told = (
            f"activations and inputs are {size(row['scaling'])} of it. If they alone grow with the batch, now {row['batch']}, "
            f"one of {row['fits']} is the largest that fits."
        )
    return Finding(
        "memory_limit",
        f"Rank {row['rank']} has reserved {size(row['reserved'])} of its device's {size(row['limit_bytes'])} at the peak "
        f"({percent(row['share'])}): {told}",
        "Leave headroom: activation checkpointing, a smaller batch, or sharded optimizer state.",
        sql,
        rows,
        confidence="high",
        severity="medium",
        rank=row["rank"],
        step_scope="whole run",
    )


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
        f"from {size(first)} to {size(last)} over {steps:,} steps, without a pause.{until}{_growing(run, rank)}",
        "Something is kept from step to step: a loss added up with its graph (use loss.item() or .detach()), a growing list, "
        "a cache without a bound.",
        sql,
        rows,
        confidence="medium",
        severity="high",
        rank=rank,
        step_scope="always-on steps",
    )


def _growing(run: Run, rank: int) -> str:
    """Say what stays of every profiled step, where a window tells."""
    top = next((row for row in rows_of(run.con.sql(query_text("memory_growing"))) if row["rank"] == rank), None)
    if top is None:
        return ""
    place = ", ".join(filter(None, (top["module"], top["place"]))) or "somewhere that was not recorded"
    return f" In the profiled steps {size(top['bytes_per_step'])} of each stay, allocated in {place}."


def _outside(n: int) -> int:
    """Return how many of the slopes between n points, sorted, lie below Sen's 95 % interval, plus one."""
    pairs = n * (n - 1) // 2
    return max(1, int((pairs - 1.96 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)) / 2))
