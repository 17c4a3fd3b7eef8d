"""Memory: how much was allocated and reserved, and when most."""

from __future__ import annotations

from .. import figures, units
from ..blocks import Block, Column, Figure, Note, Section, Table
from ..book import Book

_MEANING = "Bytes in use by tensors (allocated) and bytes the allocator holds (reserved). 1 GiB is 2^30 bytes."


def section(book: Book) -> Section:
    """Return what is known about memory."""
    blocks = [*_windows(book), *_whole_run(book)] or [
        Note(
            "Memory was not recorded: the traces hold no [memory] events (torch.profiler's "
            "profile_memory=True writes them) and the always-on timer did not run. This is unknown, not zero.",
            "unknown",
        )
    ]
    return Section("memory", "Memory", "How much is in use, and how close is the limit?", blocks)


def _windows(book: Book) -> list[Block]:
    peaks = book.ask("memory_peaks", _MEANING, "memory")
    if not peaks.rows:
        return []
    # The device that holds the most is the one that runs out; host memory only when there is no other.
    top = next((row for row in peaks.rows if row["device"] != "cpu"), peaks.rows[0])
    where = {"rank_": top["rank"], "device_": top["device"], "capture_": top["capture"]}
    series = book.ask("memory_series", _MEANING, "memory", **where)
    return [
        Table(
            "Peaks in the profiled windows",
            [
                Column("rank", "rank", "count"),
                Column("device", "device"),
                Column("peak_allocated", "allocated, peak", "size", bar=True),
                Column("peak_reserved", "reserved, peak", "size", unknown="not recorded"),
                Column("points", "points", "count"),
            ],
            peaks.rows,
            peaks.id,
            folded=len(peaks.rows) > 8,
        ),
        Figure(
            figures.memory(series.rows, "at_ns"),
            f"Rank {top['rank']}, {units.text(top['device'])}: the profiled window with the highest peak.",
            series.id,
        ),
    ]


def _whole_run(book: Book) -> list[Block]:
    answer = book.ask("memory_timer", f"{_MEANING} Resident is the process's own memory.", "memory")
    if not answer.rows:
        return []
    return [
        Figure(
            figures.memory(answer.rows, "step"),
            "Over the whole run (always-on timer), the most of any rank. What climbs and never falls leaks.",
            answer.id,
        )
    ]
