"""The tables and views every run answers (DESIGN, "A run"), over its Parquet files.

Files hold a capture in its own terms. Here rank, capture number, job step and the epoch's clock are put in their
place from what the sources mean together, so that a new source changes no old file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ..ingest.manifest import known_records
from ..ingest.resolve import Resolved, resolve
from ..ingest.schema import CAPTURE_TABLES, SOURCES
from ..ingest.sessions import Session, collected, read_sessions
from ..ingest.writer import table_path
from .cross import MATCHED
from .exposure import COMM_SPLIT, EXPOSED_WAITS
from .lineage import create_lineage
from .links import FITS
from .placement import PLACEMENTS, placement_rows
from .query import query_text
from .ranks import RANKS, rank_rows

CAPTURES = pa.schema(
    {
        "capture_id": pa.int64(),
        "rank": pa.int64(),
        "capture": pa.int64(),
        "source": pa.string(),
        "session": pa.string(),
        "shift_ns": pa.int64(),
        "step_base": pa.int64(),
        "counted": pa.bool_(),  # whether its steps enter averages
        "relative": pa.bool_(),  # whether its stamps stand on no shared clock
    }
)

_PLACED = "c.rank, c.capture"
# Of any source that is used, a capture or not.
_OF_SOURCE = """from {files} t join all_sources s using (capture_id) left join captures c using (capture_id)
        where s.rank is not null"""


def _shifted(column: str) -> str:
    return f"t.{column} + coalesce(c.shift_ns, 0) as {column}"


_JOB_STEP = "t.step + c.step_base as step"

_VIEWS = {
    "events": f"""
        select {_PLACED}, event_id, kind, name, class, device, stream, thread, start_ns + c.shift_ns as start_ns,
            dur_ns, raw_dur_ns, correlation, external_id, parent_id, step + c.step_base as step, flags, args
        from {{files}} join captures c using (capture_id)""",
    "capture_steps": f"""
        select {_PLACED}, step + c.step_base as step, label, start_ns + c.shift_ns as start_ns,
            end_ns + c.shift_ns as end_ns, dur_ns, t.source, complete and c.counted as complete,
            coalesce(reason, case when not c.counted then 'belongs to a capture that conflicts with another' end) as reason
        from {{files}} t join captures c using (capture_id)""",
    "capture_ledger": """
        select c.rank, step + c.step_base as step, category, ns, c.capture
        from {files} join captures c using (capture_id)""",
    "groups": f"select {_PLACED}, t.* exclude (capture_id) from {{files}} t join captures c using (capture_id)",
    "approaches": f"select {_PLACED}, event_id, category, ns from {{files}} join captures c using (capture_id)",
    "exposed_comm": f"""
        select {_PLACED}, start_ns + c.shift_ns as start_ns, end_ns + c.shift_ns as end_ns
        from {{files}} join captures c using (capture_id)""",
    "device_time": f"select {_PLACED}, t.* exclude (capture_id) from {{files}} t join captures c using (capture_id)",
    "kernels": f"select {_PLACED}, t.* exclude (capture_id) from {{files}} t join captures c using (capture_id)",
    "operators": f"select {_PLACED}, t.* exclude (capture_id) from {{files}} t join captures c using (capture_id)",
    "capture_batches": f"""
        select {_PLACED}, batch, step + c.step_base as step, wait_start_ns + c.shift_ns as wait_start_ns, wait_ns,
            exposed_ns, workers, 'profiler' as source
        from {{files}} join captures c using (capture_id)""",
    "capture_collectives": f"""
        select {_PLACED}, pg, seq, op, bytes, dtype, group_size, start_ns + c.shift_ns as start_ns,
            end_ns + c.shift_ns as end_ns, exposed_ns, algbw, busbw,
            step + c.step_base as step, event_id
        from {{files}} join captures c using (capture_id)""",
    "memory": f"""
        select {_PLACED}, device, t_ns + c.shift_ns as t_ns, allocated, reserved, event, size, address,
            step + c.step_base as step
        from {{files}} join captures c using (capture_id)""",
    "memory_peaks": f"""
        select s.rank, s.source, t.* exclude (capture_id)
            replace ({_shifted("start_ns")}, {_shifted("end_ns")}, {_shifted("peak_ns")},
                t.peak_step + c.step_base as peak_step) {_OF_SOURCE}""",
    "memory_alive": f"select s.rank, s.source, t.* exclude (capture_id) replace ({_JOB_STEP}) {_OF_SOURCE}",
    "memory_left": f"select s.rank, s.source, t.* exclude (capture_id) replace ({_JOB_STEP}) {_OF_SOURCE}",
    "memory_lines": f"select s.rank, s.source, t.* exclude (capture_id) replace ({_shifted('t_ns')}) {_OF_SOURCE}",
    "capture_quality": """
        select t.source, c.rank, rule, count, effect_ns, sentence from {files} t left join captures c using (capture_id)""",
}
_FILES_OF = {
    "capture_steps": "steps",
    "capture_ledger": "ledger",
    "capture_batches": "batches",
    "capture_collectives": "collectives",
    "capture_quality": "quality",
}

# Views over these and over what the collector wrote, each in its file; a later one may read the earlier ones.
_LAYERED = ("steps", "batches", "counted", "judged", "collectives", "ledger", "causes", "blame", "link_times")


@dataclass
class RunTables:
    """A connection that answers for a run, and what was needed to set it up."""

    con: duckdb.DuckDBPyConnection
    resolved: list[Resolved]
    sessions: list[Session]
    damaged: list[str]  # a sentence for every file of the run that cannot be read


def open_tables(run: Path) -> RunTables:
    """Return a connection whose catalog has the run's tables and views, but for ``findings`` and ``quality``."""
    con = duckdb.connect()
    damaged: list[str] = []
    resolved = resolve(known_records(run, damaged.append))
    sessions = read_sessions(run)
    _register(con, "captures", [_capture_row(one) for one in resolved if one.capture is not None], CAPTURES)
    _sources(con, resolved)
    for view, query in _VIEWS.items():
        table = _FILES_OF.get(view, view)
        con.execute(f"create view {view} as {query.format(files=_files(con, run, table, resolved))}")
    _collected(con, run, damaged)
    _register(con, "matched", [], MATCHED)
    create_lineage(con, run, sessions)
    _register(con, "fits", [], FITS)
    _register(con, "comm_split", [], COMM_SPLIT)
    _register(con, "exposed_waits", [], EXPOSED_WAITS)
    for view in _LAYERED:
        con.execute(f"create view {view} as {query_text(f'views/{view}')}")
    ranks = rank_rows(con, resolved, sessions)
    _register(con, "ranks", ranks, RANKS)
    activations = con.sql("select rank, max(bytes) from memory_lines where category = 'activation' group by rank")
    _register(con, "placements", placement_rows(ranks, dict(activations.fetchall())), PLACEMENTS)
    return RunTables(con, resolved, sessions, damaged)


def _capture_row(one: Resolved) -> dict[str, Any]:
    record = one.record
    return {
        "capture_id": record["capture_id"],
        "rank": one.rank,
        "capture": one.capture,
        "source": record["source"],
        "session": record["session"],
        "shift_ns": one.shift_ns,
        "step_base": one.step_base,
        "counted": one.counted,
        "relative": one.relative,
    }


def _register(con: duckdb.DuckDBPyConnection, name: str, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    con.register(f"{name}_rows", pa.Table.from_pylist(rows, schema=schema))
    con.execute(f"create table {name} as from {name}_rows")
    con.unregister(f"{name}_rows")


def _files(con: duckdb.DuckDBPyConnection, run: Path, table: str, resolved: list[Resolved]) -> str:
    """Return what a view of a table reads: the files of the run's sources, or an empty table of the right columns."""
    name_of = {
        (one.rank if one.capture is not None else one.record["claimed_rank"], one.record["sha256"]) for one in resolved
    }
    paths = [table_path(run, table, rank, sha256) for rank, sha256 in sorted(name_of, key=str)]
    present = [str(path) for path in paths if path.exists()]
    if present:
        listed = ", ".join(_text(path) for path in present)
        return f"read_parquet([{listed}], hive_partitioning = false)"
    con.register(f"no_{table}_rows", CAPTURE_TABLES[table].empty_table())
    con.execute(f"create table if not exists no_{table} as from no_{table}_rows")
    return f"no_{table}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# A step that several sessions of a rank did (a job restarted from a checkpoint) is told by the latest.
_COLLECTED = {
    "timer": "qualify row_number() over (partition by rank, step order by start_ns desc) = 1 order by rank, step",
    "host_memory": "order by rank, t_ns",
    "device_memory": "order by rank, t_ns, device",
}


def _collected(con: duckdb.DuckDBPyConnection, run: Path, damaged: list[str]) -> None:
    for name, order in _COLLECTED.items():
        con.register("collected_rows", collected(run, name, damaged.append))
        con.execute(f"create table {name} as from collected_rows {order}")
        con.unregister("collected_rows")


def _sources(con: duckdb.DuckDBPyConnection, resolved: list[Resolved]) -> None:
    told = [*SOURCES.names, "rank", "capture"]
    schema = pa.schema([*SOURCES, ("rank", pa.int64()), ("capture", pa.int64())])
    rows = [
        {
            **one.record,
            "rank": one.rank,
            "capture": one.capture,
            "rank_source": one.rank_source,
            "reason": "; ".join(filter(None, [one.record["reason"], one.reason])),
        }
        for one in resolved
    ]
    _register(con, "all_sources", [{name: row[name] for name in told} for row in rows], schema)
    con.execute(
        """
        create view sources as
        select source, bytes, sha256, format, rank, capture, rank_source, verdict, reason, events, events_repaired,
            events_dropped, detail
        from all_sources order by source, sha256
        """
    )
