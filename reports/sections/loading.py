"""Data loading: how long the loop waits for its next batch, and how much of that the device sees."""

from __future__ import annotations

from ..blocks import Block, Column, Note, Section, Table
from ..book import Book
from . import lineage

_WAIT = "Time the training loop spends inside the loader's next(); exposed is the part with the device idle."


def section(book: Book) -> Section:
    """Return what is known about data loading."""
    profiled, whole = _profiled(book), _whole_run(book)
    blocks = [*profiled, *whole, *lineage.blocks(book)] or [
        Note(
            "Data loading was not recorded: no span of a DataLoader stands in the traces and no loader was "
            "instrumented. This is unknown, not zero. Wrap the loader with stepscope.watch(loader, ...) to "
            "see it.",
            "unknown",
        )
    ]
    return Section("loading", "Data loading", "Does the loop wait for its batches, and does it matter?", blocks)


def _profiled(book: Book) -> list[Block]:
    ranks = book.ask("loading_ranks", _WAIT, "data-wait")
    if not ranks.rows:
        return []
    said = {True: "yes", False: "no", None: None}
    rows = [{**row, "workers": said[row["workers"]]} for row in ranks.rows]
    worst = book.ask("loading_worst", _WAIT, "data-wait")
    return [
        Table(
            "Waiting in the profiled windows",
            [
                Column("rank", "rank", "count"),
                Column("batches", "batches", "count"),
                Column("mean_wait_ns", "mean wait", "time", bar=True),
                Column("median_wait_ns", "median wait", "time"),
                Column("worst_wait_ns", "worst wait", "time"),
                Column("exposed_ns", "exposed, sum", "time"),
                Column("exposed", "exposed share", "share"),
                Column("workers", "workers", unknown="not told"),
            ],
            rows,
            ranks.id,
        ),
        Table(
            "The batches waited for longest",
            [
                Column("rank", "rank", "count"),
                Column("step", "step", "count"),
                Column("batch", "batch", "count"),
                Column("wait_ns", "wait", "time", bar=True),
                Column("exposed_ns", "exposed", "time"),
            ],
            worst.rows,
            worst.id,
            folded=True,
        ),
    ]


def _whole_run(book: Book) -> list[Block]:
    answer = book.ask("loading_timer", _WAIT, "always-on-timer")
    if not answer.rows:
        return []
    return [
        Table(
            "Waiting over the whole run (always-on timer)",
            [
                Column("rank", "rank", "count"),
                Column("steps", "steps", "count"),
                Column("mean_step_ns", "mean step", "time"),
                Column("mean_wait_ns", "mean wait", "time"),
                Column("wait", "wait of wall time", "share", bar=True),
                Column("worst_wait_ns", "worst wait", "time"),
                Column("worst_step", "at step", "count"),
            ],
            answer.rows,
            answer.id,
        )
    ]
