"""Exposed communication, told apart: bytes that move, or waiting for the last rank.

A moment of exposed communication is ``comm_transfer`` when a collective whose last member has arrived is under way; it
is ``comm_wait`` when all collectives under way are still waiting for a member; and it stays ``exposed_comm`` when one
of them could not be matched, or not on a clock that tells.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from .sweep import Elapsed, Int, Intervals, Totals, sweep

COMM_SPLIT = pa.schema(
    {
        "rank": pa.int64(),
        "capture": pa.int64(),
        "step": pa.int64(),
        "transfer_ns": pa.int64(),
        "wait_ns": pa.int64(),
        "rest_ns": pa.int64(),  # exposed, and cannot be told apart
    }
)

EXPOSED_WAITS = pa.schema(
    {
        "rank": pa.int64(),
        "capture": pa.int64(),
        "event_id": pa.int64(),
        "exposed_wait_ns": pa.int64(),
        "alone_wait_ns": pa.int64(),  # but for moments in which a collective that began earlier waits
        "comm_wait_ns": pa.int64(),  # of it what is ``comm_wait`` in the ledger
    }
)

_EXPOSED, _TRANSFER, _UNTOLD, _WAIT = (1 << lane for lane in range(4))


class Collectives(NamedTuple):
    """The collectives of one capture, by start: start, end and wait in ns on its own clock; wait is -1 where it is unknown."""

    start: Int
    end: Int
    wait: Int


class Windows(NamedTuple):
    """Disjoint half-open stretches of time in ns, ascending: a capture's steps, or its exposed communication."""

    start: Int
    end: Int


class Parts(NamedTuple):
    """What a capture's exposed communication is made of."""

    transfer: Int  # per step, ns
    wait: Int
    rest: Int
    exposed_wait: Int  # per collective: ns of its known wait in which nothing computed
    alone_wait: Int  # and in which no collective that began earlier waited
    comm_wait: Int  # of that what is the ledger's ``comm_wait``


def tell_apart(collectives: Collectives, exposed: Windows, steps: Windows) -> Parts:
    """Tell a capture's exposed communication apart; per step transfer, wait and rest sum to it exactly."""
    told = collectives.wait >= 0
    arrived = collectives.start + np.where(told, collectives.wait, 0)
    lanes = [
        (exposed.start, exposed.end, _EXPOSED),
        (arrived[told], collectives.end[told], _TRANSFER),
        (collectives.start[~told], collectives.end[~told], _UNTOLD),
        (collectives.start[told], arrived[told], _WAIT),
    ]
    start, end = (np.concatenate([lane[side] for lane in lanes]) for side in (0, 1))
    bits = np.concatenate([np.full(len(lane[0]), lane[2]) for lane in lanes])
    order = np.argsort(start, kind="stable")
    begun = np.maximum(collectives.start, np.append(np.iinfo(np.int64).min, np.maximum.accumulate(arrived)[:-1]))
    begun = np.minimum(begun, arrived)
    totals = Totals(steps.start, steps.end)
    waiting = Elapsed(np.concatenate([begun, arrived]), lambda masks: masks == _EXPOSED | _WAIT)
    alone = Elapsed(np.concatenate([collectives.start, arrived]), lambda masks: masks & _EXPOSED > 0)
    for segments in sweep([Intervals(start[order], end[order], bits[order])], len(lanes)):
        totals.add(segments)
        alone.add(segments)
        waiting.add(segments)

    def per_step(holds: Callable[[int], bool]) -> Int:
        return np.array([totals.where(step, holds) for step in range(len(steps.start))], np.int64)

    transfer = per_step(lambda mask: bool(mask & _EXPOSED and mask & _TRANSFER))
    wait = per_step(lambda mask: mask == _EXPOSED | _WAIT)
    return Parts(
        transfer=transfer,
        wait=wait,
        rest=per_step(lambda mask: bool(mask & _EXPOSED)) - transfer - wait,
        exposed_wait=alone.between(collectives.start, arrived),
        alone_wait=arrived - begun,
        comm_wait=waiting.between(begun, arrived),
    )


def split_exposed(con: duckdb.DuckDBPyConnection) -> None:
    """Fill ``comm_split`` and ``exposed_waits`` for every capture that has a collective whose wait is known.

    Args:
        con: The run's connection, the table ``matched`` filled.
    """
    collectives, exposed, steps = (
        _by_capture(con, name) for name in ("exposure_collectives", "exposure_stretches", "exposure_steps")
    )
    splits, waits = [], []
    for (rank, capture), (event_id, start, end, wait) in collectives.items():
        of = np.int64(rank), np.int64(capture)
        number, *windows = steps.get((rank, capture), [np.empty(0, np.int64)] * 3)
        stretches = exposed.get((rank, capture), [np.empty(0, np.int64)] * 2)
        parts = tell_apart(Collectives(start, end, wait), Windows(*stretches), Windows(*windows))
        splits.append([*(np.full(len(number), one) for one in of), number, parts.transfer, parts.wait, parts.rest])
        told = wait >= 0
        waiting = (column[told] for column in (parts.exposed_wait, parts.alone_wait, parts.comm_wait))
        waits.append([*(np.full(told.sum(), one) for one in of), event_id[told], *waiting])
    _insert(con, "comm_split", splits, COMM_SPLIT)
    _insert(con, "exposed_waits", waits, EXPOSED_WAITS)


def _by_capture(con: duckdb.DuckDBPyConnection, query: str) -> dict[tuple[int, int], list[Int]]:
    """Return a query's columns after rank and capture, for each rank and capture."""
    table = con.sql((files(__package__) / "sql" / f"{query}.sql").read_text()).to_arrow_table()
    rank, capture, *columns = (column.to_numpy() for column in table.columns)
    if not len(rank):
        return {}
    begins = np.flatnonzero(np.append(True, (np.diff(rank) != 0) | (np.diff(capture) != 0)))
    parts = zip(*(np.split(column, begins[1:]) for column in columns), strict=True)
    return {(int(rank[at]), int(capture[at])): list(part) for at, part in zip(begins, parts, strict=True)}


def _insert(con: duckdb.DuckDBPyConnection, table: str, parts: list[list[Int]], schema: pa.Schema) -> None:
    if parts:
        con.register(
            "told_apart", pa.table([np.concatenate(column) for column in zip(*parts, strict=True)], schema=schema)
        )
        con.execute(f"insert into {table} from told_apart")
        con.unregister("told_apart")
