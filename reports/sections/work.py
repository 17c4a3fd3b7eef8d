"""Kernels and operators: what runs on the device and on the host, by name."""

from __future__ import annotations

from ..blocks import Block, Column, Note, Section, Table
from ..book import Book


def section(book: Book) -> Section:
    """Return the tables of kernels and operators."""
    return Section(
        "work",
        "Kernels and operators",
        "What runs, how often, and how long? Click a heading to sort, type to filter.",
        [*_kernels(book), *_operators(book)],
    )


def _kernels(book: Book) -> list[Block]:
    answer = book.ask(
        "kernels_top",
        "Device work by name over all ranks and captures; calls without timing are not counted.",
        "kernels",
    )
    if not answer.rows:
        return [Note("No kernel was recorded (a CPU-only run has none).", "unknown")]
    columns = [
        Column("name", "kernel", "name"),
        Column("class", "class"),
        Column("calls", "calls", "count"),
        Column("sum_ns", "time, sum", "time", bar=True),
        Column("share", "share", "share"),
        Column("mean_ns", "mean", "time"),
        Column("min_ns", "min", "time"),
        Column("max_ns", "max", "time"),
        Column("ranks", "ranks", "count"),
    ]
    return [Table("Kernels", columns, answer.rows, answer.id, find=True, known=answer.rows[0]["names"])]


def _operators(book: Book) -> list[Block]:
    answer = book.ask(
        "operators_top",
        "Host operators by name over all ranks; device time is what the operator itself launched.",
        "operators",
    )
    if not answer.rows:
        return [Note("No operator was recorded.", "unknown")]
    columns = [
        Column("name", "operator", "name"),
        Column("calls", "calls", "count"),
        Column("device_ns", "device time", "time", unknown="none recorded", bar=True),
        Column("host_self_ns", "host, own", "time", bar=True),
        Column("host_ns", "host, with callees", "time"),
        Column("ranks", "ranks", "count"),
    ]
    return [Table("Operators", columns, answer.rows, answer.id, find=True, known=answer.rows[0]["names"])]
