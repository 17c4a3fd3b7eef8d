"""Communication: which collectives run, what they move, and what of their time nothing hides."""

from __future__ import annotations

from ..blocks import Block, Column, Note, Section, Table
from ..book import Book

_MEANING = (
    "Collectives as recorded on each rank, by operation. Exposed is time that no compute hides; bandwidth is "
    "unknown where the trace has no sizes."
)


def section(book: Book) -> Section:
    """Return what is known about communication."""
    by_op = book.ask("collectives_by_op", _MEANING, "collectives")
    blocks: list[Block] = []
    if by_op.rows:
        blocks.append(Table("Collectives by operation", _columns(), by_op.rows, by_op.id))
        blocks += _ranks(book)
    else:
        blocks.append(
            Note(
                "No collective was recorded. A run of one rank has none; in a distributed run the trace may "
                "lack communication, which is then unknown, not zero.",
                "unknown",
            )
        )
    return Section("communication", "Communication", "What do the ranks exchange, and what does it cost?", blocks)


def _columns() -> list[Column]:
    return [
        Column("op", "operation", "name"),
        Column("dtype", "type"),
        Column("group_size", "group", "count"),
        Column("calls", "calls", "count"),
        Column("bytes", "moved", "size", unknown="unknown"),
        Column("sum_ns", "time, sum", "time", bar=True),
        Column("mean_ns", "mean", "time"),
        Column("worst_ns", "worst", "time"),
        Column("exposed_ns", "exposed, sum", "time"),
        Column("algbw", "algbw", "rate"),
        Column("busbw", "busbw", "rate"),
    ]


def _ranks(book: Book) -> list[Block]:
    answer = book.ask("collectives_ranks", _MEANING, "collectives")
    if len(answer.rows) < 2:
        return []
    return [
        Table(
            "Collectives by rank: the one the others wait for has the shortest",
            [
                Column("rank", "rank", "count"),
                Column("calls", "calls", "count"),
                Column("bytes", "moved", "size"),
                Column("sum_ns", "time, sum", "time", bar=True),
                Column("exposed_ns", "exposed, sum", "time"),
            ],
            answer.rows,
            answer.id,
            folded=len(answer.rows) > 8,
        )
    ]
