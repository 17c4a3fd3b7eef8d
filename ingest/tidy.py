"""What is put right once the rows are in: things DuckDB took that a reader of the table must not meet."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from .repairs import without_nonfinite

_EMPTY = "coalesce(ph, cat, name, pid, tid, args::VARCHAR) IS NULL AND ts_ns IS NULL AND dur_ns IS NULL"
_SPELLINGS = " OR ".join(f"contains(args, '{word}')" for word in ("inf", "nan", "NaN", "Inf", "INF", "NAN"))
_BARE = r"[:\[,][-+]?(?i:nan|inf)"


def drop_empty(con: duckdb.DuckDBPyConnection) -> int:
    """Remove rows that say nothing (``null`` among the events) and return how many there were."""
    ((count,),) = con.execute(f"SELECT count(*) FROM raw_rows WHERE {_EMPTY}").fetchall()
    if count:  # into a new table, so that row ids stay without gaps
        _replace(con, f"SELECT * FROM raw_rows WHERE NOT ({_EMPTY}) ORDER BY rowid")
    return count


def null_nonfinite(con: duckdb.DuckDBPyConnection) -> int:
    """Turn NaN and infinities in ``args``, which are not JSON, into null; return the number of events."""
    suspects = con.execute(
        f"SELECT rowid, args FROM raw_rows WHERE ({_SPELLINGS}) AND regexp_matches(args, ?)", [_BARE]
    )
    ids, texts = [], []
    while rows := suspects.fetchmany(10_000):
        for row, args in rows:
            if (fixed := without_nonfinite(args)) != args:
                ids.append(row)
                texts.append(fixed)
    if ids:
        fixes = pa.table({"id": pa.array(ids, pa.int64()), "args": pa.array(texts, pa.string())})
        con.register("fixes", fixes)
        con.execute("UPDATE raw_rows SET args = fixes.args FROM fixes WHERE raw_rows.rowid = fixes.id")
        con.unregister("fixes")
    return len(ids)


def pair_begin_end(con: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Make one X event of each B and its E, by stack within a thread.

    The X stands where its B stood and has the E's args where it had none. A B or E alone stays as it is.

    Returns:
        The number of pairs and the number of events without a partner.
    """
    rows = con.execute(
        "SELECT rowid, ph, pid, tid, ts_ns FROM raw_rows WHERE ph IN ('B', 'E') ORDER BY ts_ns NULLS LAST, rowid"
    ).fetchall()
    open_: dict[tuple[str | None, str | None], list[tuple[int, int]]] = {}
    begins, ends, durations = [], [], []
    for row, ph, pid, tid, ts in rows:
        stack = open_.setdefault((pid, tid), [])
        if ts is None:
            continue
        if ph == "B":
            stack.append((row, ts))
        elif stack:
            begin, start = stack.pop()
            begins.append(begin)
            ends.append(row)
            durations.append(ts - start)
    if begins:
        pairs = pa.table(
            {name: pa.array(v, pa.int64()) for name, v in zip("bed", (begins, ends, durations), strict=True)}
        )
        con.register("pairs", pairs)
        _replace(
            con,
            """
            SELECT CASE WHEN p.b IS NULL THEN r.ph ELSE 'X' END AS ph, r.cat, r.name, r.pid, r.tid, r.ts_ns,
                coalesce(p.d, r.dur_ns) AS dur_ns, coalesce(r.args, e.args) AS args
            FROM raw_rows r LEFT JOIN pairs p ON p.b = r.rowid LEFT JOIN raw_rows e ON e.rowid = p.e
            WHERE r.rowid NOT IN (SELECT e FROM pairs)
            ORDER BY r.rowid
            """,
        )
        con.unregister("pairs")
    return len(begins), len(rows) - 2 * len(begins)


def _replace(con: duckdb.DuckDBPyConnection, query: str) -> None:
    con.execute(f"CREATE OR REPLACE TABLE raw_kept AS {query}")
    con.execute("DROP VIEW raw; DROP TABLE raw_rows; ALTER TABLE raw_kept RENAME TO raw_rows")
    con.execute(VIEW)


# Row ids of a table that was only appended to count its rows in the order of insertion: the file's.
VIEW = "CREATE OR REPLACE VIEW raw AS SELECT rowid AS event_id, * FROM raw_rows"
