"""The arithmetic that must hold in every run, checked every time one is opened for an answer."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from ..ingest.rows import first_row

INVARIANTS_TABLE = pa.schema(
    {
        "name": pa.string(),
        "holds": pa.bool_(),  # NULL when there was nothing to check
        "checked": pa.int64(),
        "broken": pa.int64(),
        "worst_ns": pa.int64(),
        "sentence": pa.string(),
        "sql": pa.string(),
    }
)


@dataclass(frozen=True)
class Invariant:
    """A check: its query returns one row (checked, broken, worst_ns).

    ``worst_ns`` is 0 when it holds everywhere, NULL where what is broken is no time.
    """

    name: str
    sentence: str
    sql: str


INVARIANTS = (
    Invariant(
        "ledger_closes",
        "The ledger's categories of every profiled step sum to its wall time, to the nanosecond.",
        """
        with sums as (select rank, step, sum(ns) as ns from ledger group by all)
        select count(*), count(*) filter (ns is distinct from dur_ns), coalesce(max(abs(coalesce(ns, 0) - dur_ns)), 0)
        from capture_steps left join sums using (rank, step)
        """,
    ),
    Invariant(
        "no_negative_time",
        "No category of any step is negative.",
        "select count(*), count(*) filter (ns < 0), coalesce(max(-ns) filter (ns < 0), 0) from ledger",
    ),
    Invariant(
        "busy_within_span",
        "Devices are busy for no longer than their span: utilisation is at most 100 %.",
        """
        select count(*), count(*) filter (busy_ns > span_ns or idle_ns < 0), coalesce(max(greatest(busy_ns - span_ns, 0)), 0)
        from device_time
        """,
    ),
    Invariant(
        "overlap_within_both",
        "Communication hidden by compute is no longer than either.",
        """
        select count(*), count(*) filter (overlapped_comm_ns > least(comm_ns, compute_ns)),
            coalesce(max(greatest(overlapped_comm_ns - least(comm_ns, compute_ns), 0)), 0)
        from device_time
        """,
    ),
    Invariant(
        "comm_splits",
        "Exposed and overlapped communication sum to communication.",
        """
        select count(*), count(*) filter (exposed_comm_ns + overlapped_comm_ns <> comm_ns),
            coalesce(max(abs(exposed_comm_ns + overlapped_comm_ns - comm_ns)), 0)
        from device_time
        """,
    ),
    Invariant(
        "busy_adds_up",
        "Busy time is compute, exposed communication, exposed copies and unclassified work, each counted once.",
        """
        select count(*),
            count(*) filter (compute_ns + exposed_comm_ns + exposed_copy_ns + unclassified_ns <> busy_ns),
            coalesce(max(abs(compute_ns + exposed_comm_ns + exposed_copy_ns + unclassified_ns - busy_ns)), 0)
        from device_time
        """,
    ),
    Invariant(
        "exposed_within_wait",
        "The exposed part of a loader wait or a collective is no longer than the whole.",
        """
        select count(*), count(*) filter (part < 0 or part > whole), coalesce(max(greatest(part - whole, -part, 0)), 0)
        from (
            select exposed_ns as part, wait_ns as whole from batches where exposed_ns is not null
            union all
            select exposed_ns, end_ns - start_ns from collectives where exposed_ns is not null
        )
        """,
    ),
    Invariant(
        "waits_split",
        "Waiting and transfer of every matched collective sum to its duration.",
        """
        select count(*), count(*) filter (wait_ns + transfer_ns <> end_ns - start_ns or wait_ns < 0 or transfer_ns < 0),
            coalesce(max(abs(wait_ns + transfer_ns - (end_ns - start_ns))), 0)
        from collectives where wait_ns is not null
        """,
    ),
    Invariant(
        "blame_adds_up",
        "The waiting that is charged to ranks and causes sums to the time in which ranks wait for others in judged steps.",
        """
        with ordered as (
            select rank, capture, start_ns, start_ns + wait_ns as until_ns,
                max(start_ns + wait_ns) over (
                    partition by rank, capture order by start_ns, event_id rows between unbounded preceding and 1 preceding
                ) as before_ns
            from collectives semi join judged using (rank, capture, step) where wait_ns > 0
        ),
        stretches as (
            select *, count(*) filter (before_ns is null or start_ns > before_ns) over (
                partition by rank, capture order by start_ns rows unbounded preceding
            ) as stretch from ordered
        ),
        waits as (
            select sum(ns) as ns from (select max(until_ns) - min(start_ns) as ns from stretches group by rank, capture, stretch)
        ),
        charged as (select sum(wait_ns) as ns from blame)
        select count(w.ns), count(*) filter (coalesce(w.ns, 0) <> coalesce(c.ns, 0)),
            abs(coalesce(any_value(w.ns), 0) - coalesce(any_value(c.ns), 0))
        from waits w, charged c
        """,
    ),
    Invariant(
        "steps_apart",
        "The steps of a capture follow one another without overlap.",
        """
        with pairs as (
            select end_ns - lead(start_ns) over (partition by rank, capture order by start_ns, step) as overlap
            from capture_steps
        )
        select count(overlap), count(*) filter (overlap > 0), coalesce(max(greatest(overlap, 0)), 0) from pairs
        """,
    ),
    Invariant(
        "memory_adds_up",
        "What was alive at a recording's peak sums to it, what is left at its end to that, to the byte, nothing negative.",
        """
        with parts as (
            select true as top, rank, source, device, sum(bytes) as bytes, min(bytes) as least from memory_alive group by all
            union all
            select false, rank, source, device, sum(bytes), min(bytes) from memory_left group by all
        ),
        totals as (
            select true as top, rank, source, device, peak as total from memory_peaks
            union all
            select false, rank, source, device, at_end from memory_peaks
        ),
        sums as (
            select coalesce(bytes, 0) <> total or coalesce(least, 0) < 0 as broken
            from totals left join parts using (top, rank, source, device)
        )
        select count(*), count(*) filter (broken), case when coalesce(bool_or(broken), false) then null else 0 end from sums
        """,
    ),
)


def check(con: duckdb.DuckDBPyConnection) -> list[dict[str, object]]:
    """Return a row of INVARIANTS_TABLE for each invariant."""
    rows = []
    for one in INVARIANTS:
        checked, broken, worst = first_row(con.execute(one.sql)) or (0, 0, 0)
        rows.append(
            {
                "name": one.name,
                "holds": broken == 0 if checked else None,
                "checked": checked,
                "broken": broken,
                "worst_ns": None if worst is None or not checked else int(worst),
                "sentence": one.sentence,
                "sql": " ".join(one.sql.split()),
            }
        )
    return rows
