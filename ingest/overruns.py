"""Kernels that cannot have lasted as long as the trace says: they overrun the next kernel of their stream.

Such an overrun is cut where the next kernel starts. The last kernel of a stream has no next one; it is only flagged,
when it exceeds a hundred times the median of its name. The input is streamed in the order of ``sql/stream_order.sql``.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import numpy as np
import pyarrow as pa

TOLERANCE_NS = 10_000  # a clean B200 trace shows legitimate overlaps of neighbours up to 3.7 µs
UNUSUAL = 100  # times the median of its name: too long for a last kernel to be believed without a word

_COLUMNS = ("lane", "event_id", "start_ns", "dur_ns")


def find_overruns(batches: Iterable[pa.RecordBatch]) -> tuple[pa.Table, list[int]]:
    """Return the kernels to cut, as ``event_id`` and the true ``dur_ns``, and the last kernel of every stream."""
    event_ids, durations, last = [], [], []
    held = np.zeros((len(_COLUMNS), 0), np.int64)  # the last row so far: its next kernel is in the next batch
    for batch in batches:
        new = np.stack([batch.column(name).to_numpy() for name in _COLUMNS]).astype(np.int64)
        lane, event, start, dur = rows = np.concatenate([held, new], axis=1)
        same = lane[1:] == lane[:-1]
        over = same & (start[:-1] + dur[:-1] - start[1:] > TOLERANCE_NS)
        event_ids.append(event[:-1][over])
        durations.append((start[1:] - start[:-1])[over])
        last += event[:-1][~same].tolist()
        held = rows[:, -1:]
    last += held[1].tolist()
    empty = [np.zeros(0, np.int64)]
    table = pa.table({"event_id": np.concatenate(event_ids or empty), "dur_ns": np.concatenate(durations or empty)})
    return table, last


def create_clips(con: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch]) -> None:
    """Create ``clips(event_id, dur_ns, overrun)``: kernels to cut, and last kernels that are only flagged (NULL dur_ns)."""
    cut, last = find_overruns(batches)
    con.register("cut_rows", cut)
    con.register("last_rows", pa.table({"event_id": pa.array(last, pa.int64())}))
    con.execute(
        f"""
        create table clips as
        with last_kernels as (
            select event_id, name, raw_dur_ns from typed where event_id in (select event_id from last_rows)
        ),
        usual as (
            select name, median(raw_dur_ns) as ns from typed
            where kind = 'kernel' and raw_dur_ns >= 0 and name in (select name from last_kernels) group by name
        )
        select event_id, dur_ns, false as overrun from cut_rows
        union all
        select event_id, null, true from last_kernels join usual using (name) where raw_dur_ns > {UNUSUAL} * ns
        """
    )
    con.unregister("cut_rows")
    con.unregister("last_rows")
