"""out_of_memory and fragmentation: why an allocation failed, from a snapshot that recorded it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..query import rows_of
from .finding import Finding, evidence, size

if TYPE_CHECKING:
    from ..run import Run

Row = dict[str, Any]
SCOPE = "memory snapshot"

_IN_PIECES = (
    "Set PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF before PyTorch 2.9), keep sizes from "
    "changing from step to step, or allocate the largest buffers first."
)
_TOO_LITTLE = (
    "Need less: a smaller batch, activation checkpointing, sharded or offloaded states; the memory section tells "
    "what was alive at the peak."
)
SQL = """
    select rank, source, device, oom_asked, free, largest_free, oom_device_free, reserved, private_free, private_reserved,
        peak, oom_last
    from memory_peaks where ooms > 0 order by rank, source, device
"""


def find(run: Run) -> Iterator[Finding]:
    """Find the last out-of-memory error of every snapshot that has one."""
    for row in rows_of(run.con.sql(SQL)):
        where = f"where ooms > 0 and rank = {row['rank']} and device = '{row['device']}'"
        yield _explain(row, *evidence(run, SQL.replace("where ooms > 0", where)))


def _explain(row: Row, sql: str, rows: str) -> Finding:
    asked, free, largest = row["oom_asked"], row["free"], row["largest_free"]
    in_pieces = largest < asked <= free + (row["oom_device_free"] or 0)
    numbers = f"asked {size(asked)}; {size(free)} reserved but free, largest block {size(largest)}"
    if row["oom_device_free"] is not None:
        numbers += f"; {size(row['oom_device_free'])} free on the device"
    if row["private_free"]:
        numbers += f"; {size(row['private_free'])} more sits in private pools (CUDA graphs), which others cannot use"
    if not row["oom_last"]:
        numbers += "; the allocator went on afterwards, so the free blocks are those of later"
    told = f"{numbers}."
    if in_pieces:
        return _finding(
            "fragmentation", "by fragmentation: the memory was there, but in pieces", told, _IN_PIECES, row, sql, rows
        )
    return _finding("out_of_memory", "for want of memory, not by fragmentation", told, _TOO_LITTLE, row, sql, rows)


def _finding(kind: str, why: str, numbers: str, advice: str, row: Row, sql: str, rows: str) -> Finding:
    return Finding(
        kind,
        f"Rank {row['rank']} ran out of memory on {row['device']} {why}: {numbers}",
        advice,
        sql,
        rows,
        confidence="high" if row["oom_last"] else "low",
        severity="high",
        rank=row["rank"],
        step_scope=SCOPE,
    )
