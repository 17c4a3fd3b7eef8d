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

# Steps and batches come from two layers; a profiled step is not repeated by the timer's row of it.
_LAYERED = """
create view steps as
select rank, capture, step, label, start_ns, end_ns, dur_ns, source, complete, reason from capture_steps
union all
select rank, null, step, null, start_ns, end_ns, end_ns - start_ns, 'timer', true, null
from timer t anti join capture_steps s using (rank, step);

create view batches as
with told as (
    select rank, capture, batch, step, wait_start_ns, wait_ns, exposed_ns, workers, source,
        row_number() over (partition by rank, capture, step order by wait_start_ns) - 1 as nth
    from capture_batches
    union all
    select rank, null, row_number() over (partition by rank order by step) - 1, step, wait_start_ns, wait_ns, null, null,
        'timer', 0
    from timer t anti join capture_batches b using (rank, step) where wait_ns is not null
)
select t.* exclude (nth), l.worker, l.requested_ns, l.fetch_start_ns, l.fetch_end_ns, l.slowest, l.slowest_ns,
    l.collate_ns, l.got_ns
from told t left join lineage l using (rank, step, nth);

-- The captures that may be added up: of those that conflict only the first.
create view counted as select rank, capture from captures where counted;

-- The steps that averages are made of: the complete ones of counted captures, all that took time when none is complete.
create view judged as
select s.rank, s.capture, s.step, s.dur_ns
from capture_steps s join counted using (rank, capture)
where s.dur_ns > 0 and (s.complete or not exists (select 1 from capture_steps where complete));

-- What is known across ranks is in the tables matched, comm_split and exposed_waits, which cross.py fills when it is asked for.
create view collectives as
select c.rank, c.capture, pg, seq, op, bytes, dtype, group_size, start_ns, end_ns, m.wait_ns, m.transfer_ns, exposed_ns,
    algbw, busbw, step, event_id, m.match, m.late_rank, m.late_certain, e.exposed_wait_ns,
    exposed_ns - e.exposed_wait_ns as exposed_transfer_ns, m.wait_least_ns, m.wait_most_ns
from capture_collectives c left join matched m using (rank, capture, event_id)
left join exposed_waits e using (rank, capture, event_id);

-- The ledger; where it is known whether exposed communication moved data or waited for other ranks, it is told apart.
create view ledger as
select rank, step, category, ns, capture from capture_ledger l
where category <> 'exposed_comm' or not exists (from comm_split s where (s.rank, s.capture, s.step) = (l.rank, l.capture, l.step))
union all
select rank, step, category, ns, capture from (
    select rank, step, capture, unnest(['comm_transfer', 'comm_wait', 'exposed_comm']) as category,
        unnest([transfer_ns, wait_ns, rest_ns]) as ns
    from comm_split
) where category <> 'exposed_comm' or ns > 0;

-- What the last to arrive at each collective had most more of than the other members, on the way there since the previous one,
-- where that makes up half of their wait or more: who came late out of the previous one is late for that reason.
create view causes as
with ways as (
    select c.match, c.late_rank, a.category, a.rank = c.late_rank as late, a.ns, c.wait_ns
    from collectives c join approaches a using (rank, capture, event_id)
    where c.late_certain and a.category <> 'exposed_comm'
),
excess as (
    select match, late_rank, category, sum(ns) filter (late) - avg(ns) filter (not late) as ns,
        avg(wait_ns) filter (not late) as wait_ns
    from ways group by all
)
select match, late_rank, arg_max(category, ns) as cause, max(ns)::bigint as more_ns
from excess where ns > 0 and 2 * ns >= wait_ns group by match, late_rank;

-- All waiting in judged steps, charged to the rank that arrived last and to its cause; to no rank where the clocks leave
-- a doubt. A moment in which several collectives wait counts once, for the one that began first: the sum is the time in
-- which ranks wait.
create view blame as
with charged as (
    select c.match, case when late_certain then late_rank end as late_rank, rank, c.step, e.alone_wait_ns, e.comm_wait_ns
    from collectives c join exposed_waits e using (rank, capture, event_id) semi join judged using (rank, capture, step)
    where e.alone_wait_ns > 0
)
select late_rank, cause, rank, step, sum(alone_wait_ns)::bigint as wait_ns, sum(comm_wait_ns)::bigint as exposed_ns
from charged left join causes using (match, late_rank) group by all;

-- How long each group's collectives of one size take once all members have arrived, where no other collective is under way
-- on the member that arrived last: its duration is the network's.
create view link_times as
with flights as (
    select *,
        coalesce(max(end_ns) over (by_start rows between unbounded preceding and 1 preceding) > start_ns, false)
        or coalesce(lead(start_ns) over by_start < end_ns, false) as crowded
    from collectives window by_start as (partition by rank, capture order by start_ns, event_id)
),
once as (
    select match, any_value(pg) as pg, any_value(op) as op, any_value(group_size) as group_size, any_value(bytes) as bytes,
        list(rank order by rank) as members, min(end_ns - start_ns) as ns, arg_min(crowded, end_ns - start_ns) as crowded
    from flights where wait_ns is not null and bytes > 0 group by match
)
select pg, op, group_size, bytes, members, count(*) as calls, median(ns) as ns from once where not crowded
group by pg, op, group_size, bytes, members;
"""


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
    con.execute(_LAYERED)
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
