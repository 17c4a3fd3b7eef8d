"""A run filled by hand, for the tests of the reports: DuckDB tables with the columns of ``ingest.schema``.

``loader_bound(ranks, steps)`` is made so that its answers can be computed on paper. Step ``s`` of every rank
takes ``PARTS`` plus ``(s % 5)`` ms of data wait; the first and the last step are not complete.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa

from stepscope.analyze.lineage import create_lineage
from stepscope.analyze.links import FITS
from stepscope.analyze.placement import PLACEMENTS
from stepscope.ingest import schema

MS = 1_000_000
GIB = 2**30
T0 = 1_760_000_000_000_000_000  # beyond 2^53: a double would lose it
PARTS = {
    "compute": 98 * MS,
    "exposed_comm": 6 * MS,
    "exposed_copy": 2 * MS,
    "unclassified": 0,
    "data_wait": 57 * MS,
    "sync": 1 * MS,
    "allocator": MS // 4,
    "host": 9 * MS,
    "unexplained": MS // 2 + 7,
}
HOSTILE = "<script>alert('x')</script>\"&</script><!--" + "\x1b[31m\u202eevil" + "k" * 10_000


class FakeRun:
    """What the reports need of a ``Run``."""

    def __init__(self) -> None:
        self.con = duckdb.connect()
        self.path = Path("runs/exp1")
        self.manifest: dict[str, Any] = {"schema": schema.SCHEMA, "sources": []}
        for name, columns in schema.TABLES.items():
            self.con.register("empty", view_schema(name, columns).empty_table())
            self.con.execute(f"create table {name} as from empty")
        for name, columns in {"placements": PLACEMENTS, "fits": FITS}.items():
            self.con.register("empty", columns.empty_table())
            self.con.execute(f"create table {name} as from empty")
        self.con.execute(
            "create table ranks (rank bigint, world_size bigint, host varchar, devices bigint, "
            "device_name varchar, device_memory bigint, loaders varchar, backend varchar, clock_offset_ns bigint, clock_error_ns bigint, start_ns bigint, end_ns bigint)"
        )
        self.con.execute(
            """
            alter table collectives add column match bigint;
            alter table collectives add column late_rank bigint;
            alter table collectives add column late_certain boolean;
            alter table collectives add column wait_least_ns bigint;
            alter table collectives add column wait_most_ns bigint;
            create table link_times (
                pg varchar, op varchar, group_size bigint, bytes bigint, members bigint[], calls bigint, ns double
            );
            create table blame (late_rank bigint, cause varchar, rank bigint, step bigint, wait_ns bigint, exposed_ns bigint);
            alter table batches add column source varchar default 'profiler';
            create view counted as select distinct rank, capture from steps where capture is not null;
            create view judged as select rank, capture, step, dur_ns from steps
            where source <> 'timer' and (complete or not exists (select 1 from steps where source <> 'timer' and complete))
            """
        )
        create_lineage(self.con, self.path, [])
        self.found: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []

    def sql(self, query: str, **params: Any) -> duckdb.DuckDBPyRelation:
        return self.con.sql(query, params=params)

    def add(self, table: str, *rows: dict[str, Any]) -> None:
        """Insert rows; what a row does not name is NULL."""
        types = self.con.table(table)
        columns = pa.schema(
            [pa.field(c, t) for c, t in zip(types.columns, types.limit(0).to_arrow_table().schema.types, strict=True)]
        )
        self.con.register("more", pa.Table.from_pylist(list(rows), schema=columns))
        self.con.execute(f"insert into {table} from more")

    def findings(self) -> pd.DataFrame:
        columns = _found("", "", None, None, "", "", "")
        return pd.DataFrame(self.found, columns=list(columns))

    def invariants(self) -> pd.DataFrame:
        return pd.DataFrame(self.checks, columns=["name", "holds", "worst_ns", "sentence", "sql"])

    def coverage(self) -> str:
        ranks, world = self.con.sql("select count(*), max(world_size) from ranks").fetchall()[0]
        return f"{ranks} of {world} ranks"

    def verdict(self) -> str:
        return self.found[0]["sentence"] if self.found else "Nothing to judge: no step was recorded."


def view_schema(name: str, columns: pa.Schema) -> pa.Schema:
    """Return the columns of a table's view: rank and capture (or source) stand where the file has ``capture_id``."""
    if name in schema.COLLECTED:
        return columns
    of = pa.field("source", pa.string()) if name.startswith("memory_") else pa.field("capture", pa.int64())
    extra = [f for f in (pa.field("rank", pa.int64()), of) if f.name not in columns.names]
    return pa.schema(extra + [field for field in columns if field.name != "capture_id"])


def loader_bound(ranks: int = 2, steps: int = 40, kernels: int = 40, events: int = 300) -> FakeRun:
    """Return a run in which data loading is the largest loss."""
    run = FakeRun()
    con = run.con
    con.execute(
        f"""
        insert into ranks select r, {ranks}, 'node' || (r // 8), 1, 'NVIDIA H100', null, null, 'nccl', 0, 0,
            {T0}, {T0 + 10**10}
        from range({ranks}) t(r);
        create table parts (category varchar, ns bigint);
        """
    )
    con.executemany("insert into parts values (?, ?)", list(PARTS.items()))
    con.execute(
        f"""
        insert into ledger by name
        select r as rank, s as step, category, ns + if(category = 'data_wait', (s % 5) * {MS}, 0) as ns
        from range({ranks}) t(r), range({steps}) u(s), parts;
        insert into steps by name
        select rank, 0 as capture, step, 'ProfilerStep#' || (100 + step) as label,
            {T0} + rank * 1000 + sum(sum(ns)) over (partition by rank order by step) - sum(ns) as start_ns,
            start_ns + sum(ns) as end_ns, sum(ns) as dur_ns, 'profiler' as source,
            step not in (0, {steps - 1}) as complete
        from ledger group by rank, step;
        insert into batches by name
        select rank, 0 as capture, step as batch, step, start_ns as wait_start_ns, ns + 500000 as wait_ns,
            ns as exposed_ns, false as workers
        from steps join ledger using (rank, step) where category = 'data_wait';
        insert into device_time by name
        select rank, 0 as capture, 0 as device, 'all' as policy, sum(dur_ns) as span_ns,
            {PARTS["compute"] + 8 * MS} * count(*) as busy_ns, span_ns - busy_ns as idle_ns,
            {PARTS["compute"]} * count(*) as compute_ns, {9 * MS} * count(*) as comm_ns,
            {6 * MS} * count(*) as exposed_comm_ns, {3 * MS} * count(*) as overlapped_comm_ns,
            {2 * MS} * count(*) as copy_ns, {2 * MS} * count(*) as exposed_copy_ns, 0 as unclassified_ns
        from steps group by rank;
        insert into device_time by name
        select * replace ('linked' as policy, busy_ns - 7 as busy_ns, idle_ns + 7 as idle_ns)
        from device_time where rank = 0;
        insert into kernels by name
        select rank, 0 as capture, 0 as device,
            'void at::native::vectorized_elementwise_kernel<' || k ||
                ', at::native::CUDAFunctor_add<float>>(int, std::array)' as name,
            if(k % 10 = 9, 'communication', 'compute') as class, 10 * (k + 1) as calls,
            calls * (1000 * k + 500) as sum_ns, sum_ns / calls as mean_ns,
            1000 * k as min_ns, 2000 * k + 900 as max_ns
        from ranks, range({kernels}) t(k);
        insert into operators by name
        select rank, 0 as capture, ['aten::conv2d', 'aten::addmm', 'aten::relu_', 'aten::mm', 'aten::copy_',
            'aten::native_batch_norm', 'autograd::engine::evaluate_function: ConvolutionBackward0'][1 + o % 7] ||
            if(o < 7, '', '_' || o) as name,
            5 * o + 1 as calls, calls * 9000 as host_ns, calls * 4000 as host_self_ns,
            if(o % 6 = 5, null, calls * 13000) as device_ns
        from ranks, range({kernels}) t(o);
        insert into collectives by name
        select rank, 0 as capture, row_number() over () as event_id, step, '0' as pg, c as seq,
            if(c < 3, 'all_reduce', 'broadcast') as op, if(c < 3, 25_000_000 * (c + 1), null) as bytes,
            'float' as dtype,
            {ranks} as group_size, t + (120 + c * 3) * {MS} as start_ns, t + (122 + c * 3) * {MS} as end_ns,
            {3 * MS // 2} as exposed_ns, bytes / 0.002 as algbw, algbw * 1.5 as busbw
        from (select rank, step, start_ns as t from steps where step < 8), range(4) u(c)
        """
    )
    con.execute(
        f"""
        insert into memory by name
        select rank, 0 as capture, 'cuda:0' as device, {T0} + i * 15 * {MS} as t_ns, i // 10 as step,
            (2 + rank) * {GIB} + (i % 40) * {GIB // 20} as allocated, (6 + rank) * {GIB} as reserved,
            'alloc' as event, {GIB // 20} as size, '0x7f00' as address
        from ranks, range(400) t(i);
        insert into timer by name
        select rank, 's' as session, i as step, {T0} + i * 170 * {MS} as start_ns,
            start_ns + (if(i % 32 = 31, 350, 160) + i % 9 + rank % 8) * {MS} as end_ns,
            start_ns as wait_start_ns, (if(i % 32 = 31, 245, 55) + rank % 8) * {MS} as wait_ns,
            1 as batches,
            {3 * GIB} + i * 1048576 as allocated, {6 * GIB} as reserved,
            {2 * GIB} + i * 700000 as rss, 40000 as overhead_ns, i between 200 and 239 as profiled
        from (select rank from ranks), range(600) t(i);
        insert into sources by name
        select '/data/traces/rank' || rank || '.pt.trace.json.gz' as source, 5_000_000 + rank as bytes,
            md5(rank::varchar) as sha256,
            rank, 0 as capture, 'kineto' as format, 'distributedInfo' as rank_source,
            if(rank = 1, 'truncated', 'ok') as verdict,
            if(rank = 1, 'the gz ends without its tail; every event before the cut is kept', '') as reason,
            24000 as events, 0 as events_repaired, if(rank = 1, 1, 0) as events_dropped
        from ranks
        """
    )
    _events(run, events)
    _judgement(run, ranks)
    return run


def _events(run: FakeRun, events: int) -> None:
    """Fill the steps with a loader span, nested operators, launches and kernels on two streams."""
    run.con.execute(
        f"""
        create table raw as
        select rank, step, start_ns as t, dur_ns as d from steps;
        create table cells as
            select *, i, t + 62 * {MS} + i * (100 * {MS} // {events}) as begin_ns, 100 * {MS} // {events} as w
            from raw, range({events}) u(i);
        insert into events by name select rank, 0 as capture, 1 as event_id, 'dataloader' as kind,
            'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__' as name, '1201' as thread,
            t as start_ns,
            57 * {MS} as dur_ns, step from raw;
        insert into events by name select rank, 0 as capture, 2 as event_id, 'operator' as kind,
            'aten::to' as name,
            '1201' as thread, t + 57 * {MS} as start_ns, 3 * {MS} as dur_ns, step from raw;
        insert into events by name select rank, 0 as capture, 10 + i as event_id, 'operator' as kind,
            ['aten::conv2d', 'aten::addmm', 'aten::relu_'][1 + i % 3] as name,
            if(i < {events} // 3, '1201', '1377') as thread,
            begin_ns - {MS} // 2 as start_ns, w * 9 // 10 as dur_ns, step from cells;
        insert into events by name select rank, 0 as capture, 100000 + i as event_id, 'runtime' as kind,
            'cudaLaunchKernel' as name, if(i < {events} // 3, '1201', '1377') as thread,
            begin_ns - {MS} // 2 + w // 4 as start_ns, w // 5 as dur_ns, step from cells;
        insert into events by name select rank, 0 as capture, 200000 + i as event_id, 'kernel' as kind,
            ['sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64', 'elementwise_kernel', 'fused_relu'][1 + i % 3] as name,
            'compute' as class, 0 as device, '7' as stream,
            begin_ns as start_ns, w * 97 // 100 as dur_ns, step from cells;
        insert into events by name select rank, 0 as capture, 300000 + i as event_id, 'kernel' as kind,
            'ncclDevKernel_AllReduce_Sum_f32_RING_LL' as name, 'communication' as class, 0 as device,
            '20' as stream, begin_ns as start_ns, w * 6 as dur_ns, step from cells where i > {events} // 2 and i % 12 = 0;
        """
    )


def _judgement(run: FakeRun, ranks: int) -> None:
    run.add(
        "quality",
        {
            "source": "/data/traces/rank1.pt.trace.json.gz",
            "rank": 1,
            "rule": "overrun",
            "count": 7,
            "effect_ns": 12_345_678,
            "sentence": "7 kernels overran the next one of their stream and were clipped.",
        },
        {
            "source": "/data/traces/rank1.pt.trace.json.gz",
            "rank": 1,
            "rule": "cut",
            "count": 1,
            "effect_ns": None,
            "sentence": "The file is cut; what the lost part held is unknown.",
        },
    )
    run.found = [
        _found(
            "loader_bound",
            "high",
            59_000_000,
            0.3357,
            "high",
            "The loop waits 59.0 ms of every 176 ms step for its next batch: data loading bounds this job.",
            "Give the DataLoader num_workers=4 and pin_memory=True; the loader has no workers now.",
        ),
        _found(
            "exposed_communication",
            "medium",
            6_000_000,
            0.0341,
            "medium",
            "6.0 ms of every step is communication that no compute hides.",
            "Let DDP overlap: larger bucket_cap_mb, gradient_as_bucket_view=True.",
        ),
        _found(
            "host_bound",
            "low",
            9_000_000,
            0.0512,
            "low",
            "The device idles 9.0 ms a step while the host launches work.",
            "Try torch.compile or CUDA graphs.",
        ),
        _found(
            "memory_growth",
            "low",
            None,
            None,
            "low",
            "Resident memory grows by 0.7 MB a step.",
            "Look for tensors kept in a list.",
        ),
    ]
    run.checks = [
        {
            "name": "ledger closes",
            "holds": True,
            "worst_ns": 0,
            "sentence": "The categories of every step sum to its wall time.",
            "sql": "select count(*), count(*) filter (ns < 0), 0 from ledger",
        },
        {
            "name": "busy within span",
            "holds": True,
            "worst_ns": 0,
            "sentence": "No device is busy longer than its span.",
            "sql": "",
        },
        {
            "name": "overlap within min",
            "holds": None,
            "worst_ns": None,
            "sentence": "Overlap is at most the smaller of both.",
            "sql": "",
        },
    ]


def _found(
    kind: str, severity: str, lost: int | None, share: float | None, sure: str, sentence: str, advice: str
) -> dict[str, Any]:
    return {
        "finding_id": kind,
        "kind": kind,
        "severity": severity,
        "rank": None,
        "step_scope": "judged",
        "lost_ns_per_step": lost,
        "share": share,
        "confidence": sure,
        "sentence": sentence,
        "advice": advice,
        "evidence_sql": "select rank, step, ns from ledger where category = 'data_wait' order by ns desc",
        "evidence_rows": json.dumps([]),
    }
