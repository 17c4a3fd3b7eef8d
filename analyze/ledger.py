"""The ledger: an additive split of every step's wall time that closes to the nanosecond.

One sweep over the capture answers the ledger and the exposed time of batches and collectives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..ingest.capture import Capture, sql
from ..ingest.names import pattern
from ..ingest.rows import first_row
from ..ingest.schema import EXPOSED_COMM, LEDGER, LEDGER_CATEGORIES
from .approach import Approaches
from .lanes import intervals
from .sweep import Elapsed, Int, Stretches, Totals, sweep

LANES = LEDGER_CATEGORIES[:-1]  # ``unexplained`` is what no lane covers
BUSY = 0b1111  # compute, communication, copy, unclassified: work, on a device or on the CPU of a CPU-only run
COMPUTE = 0b1
COMMUNICATION = 0b10


class Swept(NamedTuple):
    """What the capture's sweep answers."""

    ledger: pa.Table
    exposed_waits: Int  # per loader call: ns in which nothing else was at work
    exposed_comm: pa.Table  # when communication ran and nothing computed
    exposed_collectives: Int  # per collective: ns in which nothing computed
    approaches: pa.Table  # the way to each collective


def sweep_capture(capture: Capture, waits: pa.Table, collectives: pa.Table) -> Swept:
    """Sweep a capture once.

    Args:
        capture: The capture.
        waits: Loader calls with ``wait_start_ns`` and ``wait_ns``.
        collectives: Collectives with ``start_ns`` and ``end_ns``.
    """
    con = capture.con
    con.execute("set variable runtime_sync = ?", [pattern("runtime", "sync")])
    con.execute("set variable runtime_allocator = ?", [pattern("runtime", "allocator")])
    wait_start = waits["wait_start_ns"].to_numpy()
    wait_end = wait_start + waits["wait_ns"].to_numpy()
    comm_start, comm_end = collectives["start_ns"].to_numpy(), collectives["end_ns"].to_numpy()

    starts = np.array([one.start_ns + capture.base_ns for one in capture.steps], np.int64)
    ends = np.array([one.end_ns + capture.base_ns for one in capture.steps], np.int64)
    totals = Totals(starts, ends)
    idle = Elapsed(np.concatenate([wait_start, wait_end]), lambda masks: masks & BUSY == 0)
    not_computing = Elapsed(np.concatenate([comm_start, comm_end]), lambda masks: masks & COMPUTE == 0)
    exposed = Stretches(lambda masks: masks & (COMMUNICATION | COMPUTE) == COMMUNICATION)
    approaches = Approaches(collectives, int(starts[0]) if len(starts) else 0)
    for segments in sweep(intervals(con, sql("ledger_lanes", __package__)), len(LANES)):
        for question in (totals, idle, not_computing, exposed, approaches):
            question.add(segments)
    exposed_start, exposed_end = exposed.merged()
    shown = shown_categories(capture)
    return Swept(
        _ledger_table(capture, totals, shown),
        idle.between(wait_start, wait_end),
        pa.table([np.full(len(exposed_start), capture.capture_id), exposed_start, exposed_end], schema=EXPOSED_COMM),
        not_computing.between(comm_start, comm_end),
        approaches.table(capture.capture_id, shown),
    )


def _ledger_table(capture: Capture, totals: Totals, shown: list[str]) -> pa.Table:
    steps, names, amounts = [], [], []
    for window, step in enumerate(capture.steps):
        split = dict(zip(LEDGER_CATEGORIES, totals.by_priority(window, len(LANES)), strict=True))
        assert sum(split.values()) == step.end_ns - step.start_ns, "the ledger does not close"
        assert all(ns == 0 for name, ns in split.items() if name not in shown), (
            "time in a category that cannot be shown"
        )
        for name in shown:
            steps.append(step.step)
            names.append(name)
            amounts.append(split[name])
    columns = [
        pa.array([capture.capture_id] * len(steps), pa.int64()),
        pa.array(steps, pa.int64()),
        names,
        amounts,
    ]
    return pa.Table.from_arrays(
        [
            column if isinstance(column, pa.Array) else pa.array(column, LEDGER.field(i).type)
            for i, column in enumerate(columns)
        ],
        schema=LEDGER,
    )


def shown_categories(capture: Capture) -> list[str]:
    """Return the ledger's categories that this capture can show, in order: others have no row, not a zero."""
    kinds = {
        kind for (kind,) in capture.con.execute("select distinct kind from events where dur_ns is not null").fetchall()
    }
    device = bool(kinds & {"kernel", "copy", "memset"})
    enqueued = first_row(capture.con.execute("select 1 from typed where communicates limit 1")) is not None
    can_show = {
        "compute": device or "operator" in kinds,
        # Collectives that are enqueued and nowhere run are not recorded, which is not zero.
        "exposed_comm": device or "collective" in kinds or ("operator" in kinds and not enqueued),
        "exposed_copy": device,
        "unclassified": device,
        "data_wait": "dataloader" in kinds,
        "sync": "runtime" in kinds,
        "allocator": "runtime" in kinds,
        "host": bool(kinds & {"operator", "runtime"}),
        "unexplained": True,
    }
    return [name for name in LEDGER_CATEGORIES if can_show[name]]
