"""What the collector followed of data loaders: live lines of JSON, whole or cut off by a kill, and sealed Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from .lines import no_rows, read_lines
from .schema import LOADER_BATCHES, LOADER_FETCHES
from .writer import read_parquet


def fetch_rows(run: Path) -> pa.Table:
    """Return a row a batch that a worker, or the loop's own process, fetched."""
    return _rows(run, "fetches", LOADER_FETCHES)


def batch_rows(run: Path) -> pa.Table:
    """Return a row a batch that reached the loop."""
    return _rows(run, "batches", LOADER_BATCHES)


def _rows(run: Path, what: str, schema: pa.Schema) -> pa.Table:
    folder = run / "loader"
    sealed = sorted(folder.glob(f"*.{what}.*.parquet"))
    live = [file for file in sorted(folder.glob(f"*.{what}.*.jsonl")) if file.with_suffix(".parquet") not in sealed]
    tables = [*(read_parquet(file) for file in sealed), *(read_lines(file.read_bytes(), schema) for file in live)]
    return pa.concat_tables([no_rows(schema), *tables])
