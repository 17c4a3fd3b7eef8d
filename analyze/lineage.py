"""The view ``lineage``: every batch that reached a loop, from the request of its indices to the next request."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from ..ingest.loader import delivery_rows, fetch_rows
from ..ingest.sessions import Session

_SESSIONS = pa.schema({"session": pa.string(), "rank": pa.int64(), "first_step": pa.int64()})

# A worker answers its requests in order, so its n-th fetch of a pass belongs to the n-th request it was sent.
_LINEAGE = """
create table lineage as
select s.rank, s.session, d.loader, d.pass, d.delivered, s.first_step + d.step as step,
    row_number() over (partition by s.rank, s.session, d.step order by d.asked_ns) - 1 as nth,
    d.workers, d.prefetch, d.in_order, d.worker, d.requested_ns,
    f.fetch_start_ns, f.fetch_end_ns, f.fetch_end_ns - f.fetch_start_ns as fetch_ns,
    f.samples, f.slowest_ns, f.slowest, f.collate_ns,
    f.cpu_ns, f.runq_ns, greatest(f.fetch_end_ns - f.fetch_start_ns - f.cpu_ns - f.runq_ns, 0) as blocked_ns,
    f.read_chars, f.read_bytes, f.major_faults, f.voluntary, f.involuntary,
    d.asked_ns, d.got_ns, d.got_ns - d.asked_ns as wait_ns,
    case when d.workers > 0 then greatest(d.got_ns - greatest(d.asked_ns, least(d.got_ns,
        min(f.fetch_end_ns) over following)), 0) end as blocked_behind_ns,
    lead(d.asked_ns) over pass - d.got_ns as work_ns,
    lead(d.asked_cpu_ns) over pass - d.got_cpu_ns as work_cpu_ns,
    lead(d.asked_runq_ns) over pass - d.got_runq_ns as work_runq_ns
from delivery_rows d join lineage_sessions s on s.session = split_part(d.loader, '/', 1)
left join fetch_rows f on f.loader = d.loader and f.pass = d.pass and f.worker is not distinct from d.worker
    and f.ordinal = d.ordinal
window pass as (partition by d.loader, d.pass order by d.delivered),
    following as (partition by d.loader, d.pass order by d.delivered rows between 1 following and unbounded following)
order by s.rank, d.asked_ns
"""


def create_lineage(con: duckdb.DuckDBPyConnection, run: Path, sessions: list[Session]) -> None:
    """Create the table ``lineage``, empty when no loader was followed."""
    con.register("delivery_rows", delivery_rows(run))
    con.register("fetch_rows", fetch_rows(run))
    told = [{name: one.get(name) for name in _SESSIONS.names} for one in sessions]
    con.register("lineage_sessions", pa.Table.from_pylist(told, schema=_SESSIONS))
    con.execute(_LINEAGE)
    for name in ("delivery_rows", "fetch_rows", "lineage_sessions"):
        con.unregister(name)
