"""``stepscope sql``: DuckDB over a run's tables."""

from __future__ import annotations

import csv
import json
import sys
from typing import Any

import click

from .opening import opened

TABLE_ROWS = 1000


@click.command(name="sql")
@click.argument("run")
@click.argument("query")
@click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def command(run: str, query: str, style: str) -> None:
    """Answer QUERY over the tables of RUN: events, steps, ledger, kernels, findings, and more."""
    with opened([run]) as opened_run:
        answer = opened_run.sql(query)
        if answer is None:  # a statement without an answer
            return
        columns, rows = answer.columns, answer.fetchall()
    if style == "json":
        click.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
    elif style == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        _table(columns, rows)


def _table(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name, sample in zip(columns, rows[0] if rows else columns, strict=True):
        table.add_column(Text(name), justify="right" if isinstance(sample, int | float) else "left", overflow="fold")
    for row in rows[:TABLE_ROWS]:
        table.add_row(*(Text("NULL" if value is None else str(value)) for value in row))
    Console().print(table)
    click.echo(f"{len(rows)} rows" + (f", the first {TABLE_ROWS} shown" if len(rows) > TABLE_ROWS else ""))
