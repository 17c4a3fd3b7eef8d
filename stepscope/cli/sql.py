"""``stepscope sql``: DuckDB over a run's tables."""

from __future__ import annotations

import csv
import json
import shutil
import sys

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
        if style == "table":
            answer.show(max_width=_width(), max_rows=TABLE_ROWS)
            return
        columns, rows = answer.columns, answer.fetchall()
    if style == "json":
        click.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000
