"""``stepscope sql``: DuckDB over a run's tables."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sys
from typing import Any

import click
import duckdb

from ..ingest.errors import StepscopeError
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
        try:
            if style == "table":
                answer.show(max_width=_width(), max_rows=TABLE_ROWS)
                return
            columns, rows = answer.columns, answer.fetchall()
        except duckdb.Error as error:  # some mistakes show only when the rows are asked for
            raise StepscopeError(f"That query does not run: {str(error).strip()}", exit_code=2) from error
    if style == "json":
        if repeated := {name for name in columns if columns.count(name) > 1}:
            raise StepscopeError(
                f"Two columns are named {min(repeated)}: a JSON object can hold one. Name them apart with AS.",
                exit_code=2,
            )
        answers = [dict(zip(columns, map(_finite, row), strict=True)) for row in rows]
        click.echo(json.dumps(answers, default=str, allow_nan=False))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def _finite(value: Any) -> Any:
    """Return a value without the infinities and NaN that JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000
