"""One trace's raw events made into a capture: kinds, physics, nesting, classes, steps, events.

The work is SQL over temporary tables of one DuckDB connection (``ingest/sql``), which spills to disk when the trace is
larger than its memory limit, and two passes over sorted streams: nesting of host events, overruns of kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from .names import names, pattern
from .nesting import INNER, NESTING, nest
from .overruns import create_clips
from .rows import first_row
from .schema import EVENTS, FARTHEST_NS, LONGEST_NS
from .steps import Step, close_steps, find_markers, find_window, register_steps, step_table

FOREIGN_CLOCK_NS = 3_600_000_000_000  # a device stamp an hour from every host stamp is of another clock
BATCH_ROWS = 65_536  # of a stream through Python
ROW_GROUP = 30_720  # rows of the events file; DuckDB gives every thread groups of its own, so they are small
AT_ONCE = 8 * ROW_GROUP  # captures up to this size are put together in one piece, larger ones group by group


Rule = tuple[str, int, int | None, str]  # of ``quality``: rule, count, effect_ns, sentence


@dataclass
class Capture:
    """A capture whose events stand as the view ``events`` of ``con``, ready for questions.

    ``con`` also has ``steps``.
    """

    con: duckdb.DuckDBPyConnection
    capture_id: int
    base_ns: int
    steps: list[Step]
    quality: list[Rule] = field(default_factory=list)

    @property
    def has_device_work(self) -> bool:
        """Whether any kernel, copy or memset is in the capture."""
        return self.scalar("select count(*) from physics") > 0

    def scalar(self, query: str) -> Any:
        """Return the first column of the query's only row."""
        row = first_row(self.con.execute(query))
        return None if row is None else row[0]


def sql(name: str, package: str = __package__) -> str:
    """Return the text of a query that lives in a room's ``sql`` folder."""
    return (files(package) / "sql" / f"{name}.sql").read_text()


def build_capture(
    con: duckdb.DuckDBPyConnection, capture_id: int, base_ns: int | None, events_path: Path, finished: int | None = None
) -> Capture:
    """Turn the table ``raw`` of ``con`` into a capture whose events are the Parquet file ``events_path``.

    Args:
        con: A connection with the table that ``load`` made.
        capture_id: The capture's id, from its content hash.
        base_ns: What to add to the file's stamps, None when the file has lost it: stamps then stay relative.
        events_path: Where the events go.
        finished: How many of the marked steps were finished, when our collector says so: a window can end inside one.
    """
    base = base_ns or 0
    _set_patterns(con)
    con.execute(sql("typed"), {"farthest_ns": FARTHEST_NS, "longest_ns": LONGEST_NS})
    con.execute("drop view raw; drop table raw_rows")  # typed has it all
    _nest(con)
    con.execute(sql("launches"))
    con.execute(sql("physics"), {"foreign_ns": FOREIGN_CLOCK_NS})
    create_clips(con, con.sql(sql("stream_order")).to_arrow_reader(BATCH_ROWS))
    con.execute(sql("evidence"))
    markers = find_markers(con, finished)
    steps = markers or find_window(con)
    register_steps(con, steps)
    first_ns = first_row(con.execute("select min(start_ns) from typed where start_ns <> 0"))
    _write_events(
        con,
        events_path,
        {
            "capture_id": capture_id,
            "base_ns": base,
            "zero_is_missing": bool(first_ns and first_ns[0] and first_ns[0] > FOREIGN_CLOCK_NS),
            "has_device_work": first_row(con.sql("select 1 from physics limit 1")) is not None,
        },
    )
    con.execute(f"create view events as from read_parquet('{_quoted(events_path)}')")
    steps = close_steps(con, markers, base) if markers else steps
    capture = Capture(con, capture_id, base, steps)
    con.register("steps", step_table(steps, capture_id, base))
    capture.quality = _physics_quality(capture)
    return capture


def _write_events(con: duckdb.DuckDBPyConnection, path: Path, parameters: dict[str, Any]) -> None:
    """Write the events file: at once when the capture is small, else group by group, so that memory stays bounded.

    Rows are sorted, because joins on several threads do not keep them in file order.
    """
    query = sql("events")
    (count,) = first_row(con.sql("select count(*) from typed")) or (0,)
    if count <= AT_ONCE:
        form = f"format parquet, parquet_version v2, compression zstd, row_group_size {ROW_GROUP}"
        con.execute(
            f"copy ({query} order by t.event_id) to '{_quoted(path)}' ({form})",
            {**parameters, "first": 0, "last": count},
        )
        return
    with pq.ParquetWriter(path, EVENTS, compression="zstd") as writer:
        for first in range(0, count, ROW_GROUP):
            group = con.sql(query, params={**parameters, "first": first, "last": first + ROW_GROUP - 1})
            writer.write_table(group.to_arrow_table().cast(EVENTS).sort_by("event_id"))


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _set_patterns(con: duckdb.DuckDBPyConnection) -> None:
    spans = names()["spans"]
    variables = {
        "step_span": spans["step"],
        "loader_span": spans["dataloader"],
        "collective_span": spans["collective"],
        "comm_kernel": pattern("communication", "kernel"),
        "comm_launcher": pattern("communication", "launcher"),
        "comm_contradiction": pattern("communication", "contradiction"),
    }
    for name, value in variables.items():
        con.execute(f"set variable {name} = ?", [value])
    kinds = names()["kinds"]
    con.execute("set variable kinds = map($names, $kinds)", {"names": list(kinds), "kinds": list(kinds.values())})


def _nest(con: duckdb.DuckDBPyConnection) -> None:
    """Create ``nesting``, in file order, and ``inner_time`` from one pass over the host events."""
    tables = {"nested": NESTING, "inner_time": INNER}
    for name, schema in tables.items():
        con.execute(f"create table {name} ({', '.join(f'{column} {_ddl(schema, column)}' for column in schema.names)})")
    reader = con.sql(sql("nest_order")).to_arrow_reader(BATCH_ROWS)
    with con.cursor() as sink:
        for batches in nest(reader):
            for name, batch in zip(tables, batches, strict=True):
                if len(batch):
                    sink.register("rows", pa.Table.from_batches([batch]))
                    sink.execute(f"insert into {name} from rows")
    con.execute("create table nesting as from nested order by event_id; drop table nested")


def _ddl(schema: pa.Schema, name: str) -> str:
    return "boolean" if pa.types.is_boolean(schema.field(name).type) else "bigint"


def _physics_quality(capture: Capture) -> list[Rule]:
    """Say what each defect of the device stamps is, how often it is there, and how far it moved device time."""
    counts = capture.con.execute(
        """
        select flag, count(*),
            sum(greatest(raw_dur_ns, 0) - if(flag = 'foreign_clock', 0, coalesce(dur_ns, 0))) filter (raw_dur_ns is not null)
        from (select unnest(flags) as flag, raw_dur_ns, dur_ns from events where flags is not null)
        group by flag order by flag
        """
    ).fetchall()
    sentences = {
        "untimed": "Events without usable timing (stamp 0, or a duration that is missing, negative or longer than a year): {n}. They count in no sum.",
        "clipped": "Kernels that overran the next kernel of their stream by more than 10 µs: {n}. Each was cut there.",
        "overrun": "Last kernels of a stream of over 100 times their usual length: {n}. They are left as they are.",
        "before_launch": "Device events that start before their launch: {n}. Host and device clocks disagree by that much.",
        "foreign_clock": "Device events with another clock's stamps, an hour or more away: {n}. They count in no sum.",
        "orphan": "Device events without a launch in the trace: {n}. They were queued before the window, and belong to no step.",
    }
    moved = {"clipped", "untimed", "foreign_clock"}
    return [
        (flag, count, effect if flag in moved else 0, sentences[flag].format(n=count)) for flag, count, effect in counts
    ]
