"""Can the numbers be trusted: the sources, what was noticed about them, and the sums that must hold."""

from __future__ import annotations

from typing import Any

from ..blocks import Block, Column, Note, Section, Table
from ..book import Book
from ..headline import records


def section(book: Book) -> Section:
    """Return what is known about the traces themselves."""
    return Section(
        "quality",
        "Trace quality",
        "What was read, what was wrong with it, and do the sums hold?",
        [*_invariants(book), *_rules(book), *_sources(book)],
    )


def _invariants(book: Book) -> list[Block]:
    rows = records(book.run.invariants())
    for row in rows:
        row["holds"] = {True: "holds", False: "BROKEN", None: "cannot tell"}[row["holds"]]
        row["show"] = _evidence(book, row)
    broken = [row for row in rows if row["holds"] == "BROKEN"]
    blocks: list[Block] = []
    if broken:
        names = ", ".join(row["name"] for row in broken)
        blocks.append(Note(f"A sum that must hold does not: {names}. Do not trust the numbers it touches.", "bad"))
    columns = [
        Column("name", "invariant", "name"),
        Column("holds", "result"),
        Column("worst_ns", "worst violation", "time", unknown="nothing to check"),
        Column("sentence", "what it says", "prose"),
        Column("show", "", "show", unknown=""),
    ]
    return [*blocks, Table("Invariants, checked on this run", columns, rows)]


def _evidence(book: Book, row: dict[str, Any]) -> str | None:
    return (
        book.ask_sql(f"invariant-{row['name']}", row["sql"], row["sentence"], "invariants").id if row["sql"] else None
    )


def _rules(book: Book) -> list[Block]:
    answer = book.ask(
        "quality_rules",
        "Every warning is a row of the table quality; here they are grouped by rule.",
        "quality",
    )
    if not answer.rows:
        return [Note("Nothing was noticed: every event was taken as it stands.")]
    columns = [
        Column("rule", "rule", "name"),
        Column("sentence", "what was noticed, for example", "prose"),
        Column("count", "count", "count"),
        Column("effect_ns", "moved a number by", "time"),
        Column("ranks", "ranks", "count"),
    ]
    return [Table("What was noticed", columns, answer.rows, answer.id)]


def _sources(book: Book) -> list[Block]:
    answer = book.ask(
        "quality_sources", "Every trace file that was looked at, with its verdict and the reason.", "sources"
    )
    if not answer.rows:
        return [Note("No trace file was read: the run holds only what the always-on timer wrote.", "unknown")]
    columns = [
        Column("source", "source", "name"),
        Column("rank", "rank", "count", unknown="none"),
        Column("rank_source", "rank from", unknown="—"),
        Column("verdict", "verdict"),
        Column("reason", "why", "prose", unknown=""),
        Column("bytes", "size", "size"),
        Column("events", "events", "count"),
        Column("events_repaired", "repaired", "count"),
        Column("events_dropped", "dropped", "count"),
    ]
    total = answer.rows[0]["sources"]
    fine = all(row["verdict"] == "ok" for row in answer.rows)
    return [
        Table(
            "Sources",
            columns,
            answer.rows,
            answer.id,
            find=len(answer.rows) > 8,
            known=total,
            folded=fine and len(answer.rows) > 8,
        )
    ]
