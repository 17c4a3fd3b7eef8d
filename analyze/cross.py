"""The analysis across ranks, done once a run and only when it is asked for: matches, clocks, waiting.

It reads the small tables of collectives and of exposed communication, fills ``matched``, ``comm_split``,
``exposed_waits`` and the clocks of ``ranks``; the views ``collectives``, ``blame`` and ``ledger`` show the outcome.
"""

from __future__ import annotations

from importlib.resources import files

import duckdb
import numpy as np
import pyarrow as pa

from .clocks import Clocks, Meetings, compare, meetings
from .exposure import split_exposed
from .links import fit_all
from .matching import Rows, match
from .waits import split

MATCHED = pa.schema(
    {
        "rank": pa.int64(),
        "capture": pa.int64(),
        "event_id": pa.int64(),
        "match": pa.int64(),
        "wait_ns": pa.int64(),
        "transfer_ns": pa.int64(),
        "wait_least_ns": pa.int64(),
        "wait_most_ns": pa.int64(),
        "late_rank": pa.int64(),
        "late_certain": pa.bool_(),
    }
)


def match_ranks(con: duckdb.DuckDBPyConnection) -> list[int]:
    """Match the collectives of a run, once; returns the ranks whose collectives fit at more than one place."""
    table = con.sql((files(__package__) / "sql" / "matching_rows.sql").read_text()).to_arrow_table()
    if len(np.unique(table["rank"].to_numpy())) < 2:
        return []
    columns = {name: table[name].to_numpy() for name in table.column_names}
    names = ("rank", "clock_id", "group_id", "seq", "shape", "place", "start_ns", "end_ns")
    rows = Rows(*(columns[name] for name in names))
    matches = match(rows)
    met = meetings(rows, matches.match, columns["meets"])
    clocks = compare(met)
    waits = split(rows, met, clocks, columns["expected"])
    told, bounded = waits.wait >= 0, waits.most >= 0
    matched = pa.table(
        [
            table["rank"],
            table["capture"],
            table["event_id"],
            _known(matches.match, matches.match >= 0),
            _known(waits.wait, told),
            _known(rows.end - rows.start - waits.wait, told),
            _known(waits.least, bounded),
            _known(waits.most, bounded),
            _known(waits.late, told),
            pa.array(waits.certain, mask=~told),
        ],
        schema=MATCHED,
    )
    con.register("matched_rows", matched)
    con.execute("insert into matched from matched_rows")
    con.unregister("matched_rows")
    split_exposed(con)
    _set_clocks(con, rows, met, clocks)
    fit_all(con)
    return matches.ambiguous


def _known(values: np.ndarray, known: np.ndarray) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~known)


def _set_clocks(con: duckdb.DuckDBPyConnection, rows: Rows, met: Meetings, clocks: Clocks) -> None:
    ranks, places = np.unique(rows.rank, return_index=True)
    for rank, clock in zip(ranks.tolist(), met.clock[places].tolist(), strict=True):
        error = clocks.error(clock)
        con.execute(
            "update ranks set clock_offset_ns = ?, clock_error_ns = ? where rank = ?",
            [None if error is None else int(clocks.offset[clock]), error, rank],
        )
