"""What the collector followed of data loaders: live lines of JSON, whole or cut off by a kill."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from .schema import DELIVERIES, FETCHES


def fetch_rows(run: Path) -> pa.Table:
    """Return a row a batch that a worker, or the loop's own process, fetched."""
    return _rows(run, "fetches", FETCHES)


def delivery_rows(run: Path) -> pa.Table:
    """Return a row a batch that reached the loop."""
    return _rows(run, "batches", DELIVERIES)


def _rows(run: Path, what: str, schema: pa.Schema) -> pa.Table:
    files = sorted((run / "loader").glob(f"*.{what}.jsonl"))
    return pa.concat_tables([schema.empty_table(), *(_lines(file, schema) for file in files)])


def _lines(file: Path, schema: pa.Schema) -> pa.Table:
    rows = []
    for line in file.read_bytes().splitlines():
        try:
            row = json.loads(line)
        except ValueError:  # torn by a kill
            continue
        if isinstance(row, dict) and isinstance(row.get("loader"), str):
            rows.append({name: row.get(name) for name in schema.names})
    return pa.Table.from_pylist(rows, schema=schema)
