"""Memory: how much was allocated and reserved, and when most."""

from __future__ import annotations

from .. import figures, units
from ..blocks import Block, Column, Figure, Note, Section, Table
from ..book import Book

_MEANING = "Bytes in use by tensors (allocated) and bytes the allocator holds (reserved). 1 GiB is 2^30 bytes."

_POOLS = (
    ("reserved", "reserved at the end"),
    ("free", "of it free"),
    ("largest_free", "largest free block"),
    ("private_free", "free in private pools"),
)


def section(book: Book) -> Section:
    """Return what is known about memory."""
    blocks = [
        *_limits(book),
        *_recordings(book),
        *_growing(book),
        *_windows(book),
        *_whole_run(book),
        *_host(book),
        *_placements(book),
    ] or [
        Note(
            "Memory was not recorded: the traces hold no [memory] events (torch.profiler's "
            "profile_memory=True writes them) and the always-on timer did not run. This is unknown, not zero.",
            "unknown",
        )
    ]
    return Section("memory", "Memory", "How much is in use, and how close is the limit?", blocks)


def _limits(book: Book) -> list[Block]:
    meaning = (
        "The most that was reserved, against the device's memory. The largest batch that fits assumes that activations and "
        "inputs at the peak grow with it, and nothing else."
    )
    answer = book.ask("memory_headroom", meaning, "findings")
    if not answer.rows:
        return []
    return [
        Table(
            "How near the device's limit",
            [
                Column("rank", "rank", "count"),
                Column("reserved", "reserved, peak", "size"),
                Column("limit_bytes", "device", "size"),
                Column("share", "share", "share", bar=True),
                Column("outside", "outside of this job", "size", unknown="not recorded"),
                Column("scaling", "activations and inputs", "size", unknown="not recorded"),
                Column("batch", "batch", "count", unknown="not recorded"),
                Column("fits", "largest that fits", "count"),
            ],
            answer.rows,
            answer.id,
            folded=len(answer.rows) > 8,
        )
    ]


def _growing(book: Book) -> list[Block]:
    meaning = (
        "Bytes that an operator allocated in every step of the last profiled window and that were still there when it ended; its "
        "last step is left out. What stays of every step grows."
    )
    answer = book.ask("memory_growing", meaning, "memory-at-the-peak")
    if not answer.rows:
        return []
    return [
        Table(
            "What stays of every profiled step",
            [
                Column("rank", "rank", "count"),
                Column("device", "device"),
                Column("place", "operator", "name", unknown="not told"),
                Column("phase", "allocated in", unknown="not told"),
                Column("steps", "steps", "count"),
                Column("bytes_per_step", "of each", "size", bar=True),
            ],
            answer.rows,
            answer.id,
            folded=len(answer.rows) > 8,
        )
    ]


def _host(book: Book) -> list[Block]:
    meaning = (
        "Host memory at its fullest moment, against what there is. The container's leaves out the file cache, which is dropped "
        "before anything is killed."
    )
    answer = book.ask("memory_host", meaning, "memory")
    if not answer.rows:
        return []
    series = book.ask("memory_host_series", meaning, "memory")
    return [
        Table(
            "How near the host's limits",
            [
                Column("rank", "rank", "count"),
                Column("what", "what"),
                Column("used", "used, most", "size"),
                Column("size", "of", "size"),
                Column("share", "share", "share", bar=True),
                Column("rss", "process then", "size", unknown="not read"),
                Column("workers", "workers", "count", unknown="not read"),
                Column("workers_pss", "workers then", "size", unknown="none"),
                Column("step", "at step", "count"),
            ],
            answer.rows,
            answer.id,
            folded=len(answer.rows) > 12,
        ),
        Figure(
            figures.memory(series.rows, "step"),
            "Host memory over the whole run, the most of any rank; pages that processes share are divided among them.",
            series.id,
        ),
    ]


def _recordings(book: Book) -> list[Block]:
    meaning = (
        "Live bytes of a recording (a profiled window, a memory snapshot or timeline), replayed from its end. What was "
        "alive at the peak sums to the peak; what was there before the recording has no known owner."
    )
    answer = book.ask("memory_recordings", meaning, "memory-at-the-peak")
    if not answer.rows or not answer.rows[0]["peak"]:
        return []
    top = answer.rows[0]  # accelerators first, then the highest peak
    where = {"rank_": top["rank"], "source_": top["source"], "device_": top["device"]}
    lines = book.ask("memory_stack", meaning, "memory-at-the-peak", **where)
    held = book.ask("memory_held", meaning, "memory-at-the-peak", **where)
    holders = book.ask("memory_holders", meaning, "memory-at-the-peak", **where, limit=60)
    title = f"Rank {top['rank']}, {units.text(top['device'])}"
    pools = any(row["reserved"] is not None for row in answer.rows)
    blocks: list[Block] = [
        Table(
            "Recordings",
            [
                Column("rank", "rank", "count"),
                Column("device", "device"),
                Column("peak", "alive, peak", "size", bar=True),
                Column("before", "from before", "size"),
                *([Column(k, n, "size", unknown="not told") for k, n in _POOLS] if pools else []),
                Column("source", "file", "name"),
            ],
            answer.rows,
            answer.id,
            folded=len(answer.rows) > 8,
        ),
        Table(
            f"{title}: what was alive at the peak, {units.size(top['peak'])} in all",
            [
                Column("category", "category"),
                Column("phase", "allocated in", unknown="not told"),
                Column("blocks", "blocks", "count", unknown="only their sum is known"),
                Column("bytes", "size", "size", bar=True),
                Column("share", "of the peak", "share"),
            ],
            held.rows,
            held.id,
        ),
        Table(
            f"{title}: who allocated it",
            [
                Column("place", "operator or line", "name", unknown="not told"),
                Column("category", "category"),
                Column("blocks", "blocks", "count", unknown="only their sum is known"),
                Column("bytes", "size", "size", bar=True),
                Column("stack", "stack", "name", unknown="not told"),
            ],
            holders.rows,
            holders.id,
            folded=True,
        ),
    ]
    if lines.rows:
        blocks.insert(1, Figure(figures.memory_stack(lines.rows), f"{title}: what is alive, by category.", lines.id))
    return blocks


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


def _placements(book: Book) -> list[Block]:
    meaning = (
        "What each rank would hold and send in a step, from the sizes that the collector walked. Activations are the most of "
        "any recording; they count in the total only where they were recorded."
    )
    answer = book.ask("memory_placements", meaning, "placement")
    if not answer.rows:
        return []
    one = answer.rows[0]
    return [
        Table(
            f"Where the states could be, on {one['ranks']} ranks (rank {one['rank']})",
            [
                Column("strategy", "strategy"),
                *(Column(key, key, "size") for key in ("parameters", "gradients", "optimizer")),
                Column("activations", "activations", "size", unknown="not recorded"),
                Column("total", "on each rank", "size", bar=True),
                Column("moved", "sent in a step", "size", unknown="depends on the model"),
                Column("host", "to and from the host", "size"),
                Column("fits", "fits the device", unknown="not told"),
            ],
            answer.rows,
            answer.id,
        )
    ]
