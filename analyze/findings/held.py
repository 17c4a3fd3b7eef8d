"""activations_held and optimizer_replicated: memory that a change of the script would give back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..query import query_text, rows_of
from .finding import Finding, evidence, percent, size
from .memory import NEAR_LIMIT

if TYPE_CHECKING:
    from ..run import Run

LEAST_HELD = 0.05  # of the peak
LEAST_SAVING = 0.05  # of the device's memory

# Allocated in forward of an earlier step and alive at the peak; of the accelerators where there is one.
HELD_SQL = """
    with parts as (
        select rank, source, device, peak, peak_step, place, module, sum(bytes) as bytes
        from memory_alive join memory_peaks using (rank, source, device)
        where phase = 'forward' and step < peak_step
            and (device <> 'cpu' or not exists (select 1 from memory_peaks where device <> 'cpu'))
        group by all
    )
    select rank, source, device, peak, peak_step, sum(bytes)::bigint as held, sum(bytes) / peak as share,
        arg_max(coalesce(module || ', ', '') || place, bytes) as most, max(bytes)::bigint as most_bytes
    from parts group by rank, source, device, peak, peak_step order by share desc, rank, source, device
"""
REPLICATED_SQL = """
    with told as (
        select rank, world_size, device_memory, (states ->> 'optimizer')::bigint as optimizer,
            (states ->> 'whole_optimizer')::bigint as whole
        from ranks where world_size > 1 and device_memory > 0
    )
    select rank, world_size, optimizer, optimizer - ceil(optimizer / world_size)::bigint as saving, device_memory
    from told where optimizer > 0 and optimizer = whole order by saving desc, rank
"""


def find(run: Run) -> Iterator[Finding]:
    """Find activations that outlive their step."""
    for row in rows_of(run.con.sql(HELD_SQL))[:1]:
        if row["share"] < LEAST_HELD:
            return
        sql, rows = evidence(run, HELD_SQL)
        yield Finding(
            "activations_held",
            f"At the peak in step {row['peak_step']}, {size(row['held'])} of {size(row['peak'])} on {row['device']} of rank "
            f"{row['rank']} ({percent(row['share'])}) come from the forward pass of earlier steps: most from {row['most']}, "
            f"{size(row['most_bytes'])}.",
            "Let go of them before the next forward: add up loss.item() rather than the loss, detach what is kept (hidden "
            "states, outputs for metrics), del the outputs once backward is done.",
            sql,
            rows,
            confidence="medium",
            severity="medium",
            rank=row["rank"],
            step_scope="profiled steps",
        )


def find_replicated(run: Run) -> Iterator[Finding]:
    """Find optimizer state that every rank holds whole, where devices are nearly full."""
    near = {row["rank"] for row in rows_of(run.con.sql(query_text("memory_headroom"))) if row["share"] >= NEAR_LIMIT}
    for row in rows_of(run.con.sql(REPLICATED_SQL)):
        if row["rank"] not in near or row["saving"] < LEAST_SAVING * row["device_memory"]:
            continue
        sql, rows = evidence(run, REPLICATED_SQL)
        yield Finding(
            "optimizer_replicated",
            f"Each of the {row['world_size']} ranks holds the whole optimizer state, {size(row['optimizer'])}, and their "
            f"devices are nearly full: sharded, {size(row['saving'])} of it would be free on each.",
            "Shard it: ZeroRedundancyOptimizer around it with DDP, or FSDP2 (fully_shard); the placement table tells what "
            "either moves.",
            sql,
            rows,
            confidence="high",
            severity="medium",
            rank=row["rank"],
            step_scope="whole run",
        )
        return
