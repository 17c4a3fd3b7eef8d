"""One trace's raw events made into a capture: kinds, physics, nesting, classes, steps, events.

The work is SQL over temporary tables of one DuckDB connection (``ingest/sql``), which spills to disk when the trace is
larger than its memory limit, and one streamed pass in Python for the nesting of host events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from .names import names, pattern
from .nesting import NESTING, nest
from .rows import first_row
from .steps import Step, close_steps, find_markers, register_markers, step_table

OVERLAP_TOLERANCE_NS = 10_000  # a clean B200 trace shows legitimate overlaps of neighbours up to 3.7 µs
FOREIGN_CLOCK_NS = 3_600_000_000_000  # a device stamp an hour from every host stamp is of another clock
BATCH_ROWS = 65_536


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


def build_capture(con: duckdb.DuckDBPyConnection, capture_id: int, base_ns: int | None, events_path: Path) -> Capture:
    """Turn the table ``raw`` of ``con`` into a capture whose events are the Parquet file ``events_path``.

    Args:
        con: A connection with the table that ``load`` made.
        capture_id: The capture's id, from its content hash.
        base_ns: What to add to the file's stamps, None when the file has lost it: stamps then stay relative.
        events_path: Where the events go.
    """
    base = base_ns or 0
    _set_patterns(con)
    con.execute(sql("typed"))
    con.execute(sql("physics"), {"tolerance_ns": OVERLAP_TOLERANCE_NS, "foreign_ns": FOREIGN_CLOCK_NS})
    _nest(con)
    con.execute(sql("classes"))
    markers = find_markers(con)
    register_markers(con, markers)
    steps = close_steps(con, markers)
    first_ns = first_row(con.execute("select min(start_ns) from typed where start_ns <> 0"))
    con.execute(
        f"copy ({sql('events')}) to '{_quoted(events_path)}' (format parquet, compression zstd, row_group_size 122880)",
        {
            "capture_id": capture_id,
            "base_ns": base,
            "zero_is_missing": bool(first_ns and first_ns[0] and first_ns[0] > FOREIGN_CLOCK_NS),
            "only_step": None if markers or not steps else steps[0].step,
        },
    )
    con.execute(f"create view events as from read_parquet('{_quoted(events_path)}')")
    capture = Capture(con, capture_id, base, steps)
    con.register("steps", step_table(steps, capture_id, base))
    capture.quality = _physics_quality(capture)
    return capture


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
    con.execute(f"create table nesting ({', '.join(f'{name} {_ddl(NESTING, name)}' for name in NESTING.names)})")
    con.execute(
        """
        create table nest_order as
        select dense_rank() over (order by thread) as thread, event_id, start_ns, start_ns + raw_dur_ns as end_ns,
               case kind when 'operator' then 2 when 'annotation' then 1 when 'dataloader' then 3 else 0 end as role
        from typed
        where kind in ('operator', 'annotation', 'runtime', 'python', 'step', 'dataloader', 'collective', 'overhead')
          and start_ns is not null and raw_dur_ns >= 0
        """
    )
    reader = con.sql("from nest_order order by thread, start_ns, end_ns desc, event_id").to_arrow_reader(BATCH_ROWS)
    with con.cursor() as sink:
        for batch in nest(reader):
            sink.register("nested", pa.Table.from_batches([batch]))
            sink.execute("insert into nesting from nested")


def _ddl(schema: pa.Schema, name: str) -> str:
    return "boolean" if pa.types.is_boolean(schema.field(name).type) else "bigint"


def _physics_quality(capture: Capture) -> list[Rule]:
    """Say what each defect of the device stamps is, how often it is there, and how far it moved device time."""
    counts = capture.con.execute(
        """
        select flag, count(*), sum(greatest(raw_dur_ns, 0) - coalesce(dur_ns, 0))
        from (select unnest(flags) as flag, raw_dur_ns, dur_ns from events where flags is not null)
        group by flag order by flag
        """
    ).fetchall()
    sentences = {
        "untimed": "{n} events have no usable timing (stamp 0, or a missing or negative duration); they count in no sum.",
        "clipped": "{n} kernels overran the next kernel of their stream by more than 10 µs; each was cut there.",
        "overrun": "{n} last kernels of a stream are over 100 times their usual length; they are left as they are.",
        "before_launch": "{n} device events start before their launch: host and device clocks disagree by that much.",
        "foreign_clock": "{n} device events carry another clock's stamps, an hour or more away; they count in no sum.",
        "orphan": "{n} device events have no launch in the trace: they were queued before the window, and belong to no step.",
    }
    moved = {"clipped", "untimed"}
    return [
        (flag, count, effect if flag in moved else 0, sentences[flag].format(n=count)) for flag, count, effect in counts
    ]
