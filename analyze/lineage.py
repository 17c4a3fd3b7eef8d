"""The table ``lineage``: every batch that reached a loop, from the request of its indices to the next request.

And ``loader_passes``: where each pass over a loader began and ended.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from ..ingest.loader import batch_rows, fetch_rows
from ..ingest.sessions import Session

_SESSIONS = pa.schema({"session": pa.string(), "rank": pa.int64(), "first_step": pa.int64()})

_LINEAGE = """
create temp table followed as
select s.rank, s.session, s.first_step + b.step as job_step, b.*,
    lead(asked_ns) over pass as next_asked_ns,
    lead(asked_cpu_ns) over pass as next_asked_cpu_ns, lead(asked_runq_ns) over pass as next_asked_runq_ns
from batch_rows b join lineage_sessions s on s.session = split_part(b.loader, '/', 1)
window pass as (partition by b.loader, b.pass order by b.delivered, b.ended nulls first);

create table lineage as
select b.rank, b.session, b.loader, b.pass, b.delivered, b.job_step as step,
    row_number() over (partition by b.rank, b.session, b.job_step order by b.asked_ns) - 1 as nth,
    b.workers, b.prefetch, b.in_order, b.worker, b.task, b.requested_ns,
    f.fetch_start_ns, f.fetch_end_ns, f.fetch_end_ns - f.fetch_start_ns as fetch_ns,
    f.samples, f.slowest_ns, f.slowest, f.slowest_path, f.collate_ns,
    f.cpu_ns, f.runq_ns, greatest(f.fetch_end_ns - f.fetch_start_ns - f.cpu_ns - f.runq_ns, 0) as blocked_ns,
    f.read_chars, f.read_bytes, f.major_faults, f.voluntary, f.involuntary,
    f.pickle_ns, f.pickle_cpu_ns, f.sent_ns, f.bytes, b.arrived_ns, b.loaded_ns, b.loaded_ns - b.arrived_ns as load_ns,
    b.asked_ns, b.got_ns, b.got_ns - b.asked_ns as wait_ns, b.got_cpu_ns - b.asked_cpu_ns as wait_cpu_ns,
    b.got_runq_ns - b.asked_runq_ns as wait_runq_ns,
    case when b.workers > 0 then greatest(b.got_ns - greatest(b.asked_ns, least(b.got_ns,
        min(f.sent_ns) over following)), 0) end as blocked_behind_ns,
    b.next_asked_ns - b.got_ns as work_ns, b.next_asked_cpu_ns - b.got_cpu_ns as work_cpu_ns,
    b.next_asked_runq_ns - b.got_runq_ns as work_runq_ns
from followed b left join fetch_rows f on f.loader = b.loader and f.pass = b.pass and f.task = b.task
where b.ended is null
window following as (partition by b.loader, b.pass order by b.delivered rows between 1 following and unbounded following)
order by b.rank, b.asked_ns;

create table loader_passes as
select rank, session, loader, pass, any_value(workers) as workers, any_value(persistent) as persistent,
    count(*) filter (where ended is null) as batches, min(asked_ns) as begun_ns, min(got_ns) as first_got_ns,
    (min(got_ns) - min(asked_ns)) as startup_ns,
    max(case when ended = 1 then asked_ns end) as exhausted_ns, max(case when ended = 1 then got_ns - asked_ns end) as end_ns
from followed group by rank, session, loader, pass order by rank, begun_ns;

drop table followed
"""


def create_lineage(con: duckdb.DuckDBPyConnection, run: Path, sessions: list[Session]) -> None:
    """Create the tables ``lineage`` and ``loader_passes``, empty when no loader was followed."""
    told = [{name: one.get(name) for name in _SESSIONS.names} for one in sessions]
    rows = {
        "batch_rows": batch_rows(run),
        "fetch_rows": fetch_rows(run),
        "lineage_sessions": pa.Table.from_pylist(told, schema=_SESSIONS),
    }
    for name, table in rows.items():
        con.register(name, table)
    con.execute(_LINEAGE)
    for name in rows:
        con.unregister(name)
