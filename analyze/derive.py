"""Everything that is asked of one capture: the map stage's half of the analysis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..ingest.capture import Capture, Rule, sql
from ..ingest.names import names
from ..ingest.schema import BATCHES, CAPTURE_TABLES, COLLECTIVES, QUALITY
from ..ingest.steps import step_table
from .bandwidth import bandwidths
from .device_time import device_time
from .enqueued import name_spans
from .groups import groups_table
from .ledger import sweep_capture
from .memory_tables import memory_tables
from .trace_memory import trace_memory


def derive(capture: Capture, source: str, header: dict[str, Any]) -> dict[str, pa.Table]:
    """Return the capture's tables but for ``events``: steps, ledger, device_time, kernels, operators and so on.

    Args:
        capture: The capture, its events ready.
        source: The trace file's path or URI, for the rows of ``quality``.
        header: What stands around the trace's events.
    """
    con, capture_id = capture.con, capture.capture_id
    waits = con.sql(sql("capture_batches", __package__)).to_arrow_table()
    groups = groups_table(header, capture_id)
    ours = header.get("stepscope")
    enqueued = ours.get("enqueued") if isinstance(ours, dict) else None
    collectives = name_spans(_collectives(capture), groups, enqueued)
    swept = sweep_capture(capture, waits, collectives)
    tables = {
        "steps": step_table(capture.steps, capture_id, capture.base_ns),
        "ledger": swept.ledger,
        "approaches": swept.approaches,
        "groups": groups,
        "exposed_comm": swept.exposed_comm,
        "device_time": device_time(capture),
        "batches": _conform(waits, BATCHES, capture_id, exposed_ns=swept.exposed_waits),
        "collectives": _conform(
            collectives,
            COLLECTIVES,
            capture_id,
            exposed_ns=swept.exposed_collectives,
            **bandwidths(collectives),
        ),
    }
    for name in ("kernels", "operators", "memory"):
        schema = CAPTURE_TABLES[name]
        rows = con.sql(sql(f"capture_{name}", __package__), params={"capture_id": capture_id}).to_arrow_table()
        tables[name] = rows.select(schema.names).cast(schema)
    tables |= memory_tables(capture_id, trace_memory(capture, rows))
    tables["quality"] = _quality(capture, source, tables)
    return tables


def _collectives(capture: Capture) -> pa.Table:
    ops = [{"op": op, "pattern": pattern} for op, pattern in names()["collectives"].items()]
    sizes = names()["dtype_bytes"]
    capture.con.execute("set variable collective_ops = ?", [ops])
    capture.con.execute(
        "set variable dtype_bytes = map($names, $bytes)",
        {"names": list(sizes), "bytes": list(sizes.values())},
    )
    return capture.con.sql(sql("capture_collectives", __package__)).to_arrow_table()


def _conform(rows: pa.Table, schema: pa.Schema, capture_id: int, **columns: np.ndarray | pa.Array) -> pa.Table:
    """Give rows the columns of a schema: those they have, those given, and NULL for the rest."""
    given = {"capture_id": pa.array(np.full(len(rows), capture_id)), **columns}
    arrays = [
        pa.array(given[name], type=schema.field(name).type)
        if name in given and not isinstance(given[name], pa.Array)
        else given[name]
        if name in given
        else rows[name].cast(schema.field(name).type)
        if name in rows.column_names
        else pa.nulls(len(rows), schema.field(name).type)
        for name in schema.names
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _quality(capture: Capture, source: str, tables: dict[str, pa.Table]) -> pa.Table:
    rows = list(capture.quality)
    if not len(tables["batches"]):
        rows.append(
            (
                "loader_not_recorded",
                0,
                None,
                "No loader call is in the trace: waiting for data is not recorded, not zero.",
            )
        )
    if not len(tables["device_time"]):
        rows.append(
            (
                "no_device_work",
                0,
                None,
                "No kernel, copy or memset is in the trace: device questions have no answer.",
            )
        )
    if any(step.source == "window" for step in capture.steps):
        rows.append(
            (
                "no_step_markers",
                0,
                None,
                "No ProfilerStep markers: the whole window is taken as one step. Call prof.step() once a step.",
            )
        )
    for step in capture.steps:
        if step.reason is not None:
            rows.append(
                (
                    "incomplete_step",
                    1,
                    None,
                    f"{step.label or 'The window'} {step.reason}: it is out of the averages.",
                )
            )
    return quality_table(source, capture.capture_id, rows)


def quality_table(source: str | None, capture_id: int | None, rows: list[Rule]) -> pa.Table:
    """Return rows of ``quality`` from (rule, count, effect_ns, sentence)."""
    return pa.Table.from_pylist(
        [
            {
                "source": source,
                "capture_id": capture_id,
                "rule": rule,
                "count": count,
                "effect_ns": effect,
                "sentence": text,
            }
            for rule, count, effect, text in rows
        ],
        schema=QUALITY,
    )
