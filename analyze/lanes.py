"""From a query's rows to the sweep's intervals, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np

from .sweep import Intervals

BATCH_ROWS = 32_768


def intervals(
    con: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any] | None = None
) -> Iterator[Intervals]:
    """Stream a query with the columns ``start_ns``, ``end_ns`` and ``lanes``, ordered by start, as intervals."""
    reader = con.sql(query, params=parameters or None).to_arrow_reader(BATCH_ROWS)
    for batch in reader:
        start, end, lanes = (
            batch.column(name).to_numpy(zero_copy_only=False) for name in ("start_ns", "end_ns", "lanes")
        )
        yield Intervals(start.astype(np.int64), end.astype(np.int64), lanes.astype(np.int64))
