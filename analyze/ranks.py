"""One row a rank: who it was and whose clock its stamps are on."""

from __future__ import annotations

import json
import shlex
from typing import Any

import duckdb
import pyarrow as pa

from ..ingest.resolve import Resolved
from ..ingest.sessions import Session

RANKS = pa.schema(
    {
        "rank": pa.int64(),
        "world_size": pa.int64(),
        "host": pa.string(),
        "devices": pa.int64(),
        "device_name": pa.string(),
        "device_memory": pa.int64(),
        "backend": pa.string(),
        "cores": pa.int64(),
        "torch": pa.string(),
        "command": pa.string(),
        "loaders": pa.string(),  # JSON text: the settings of each loader that the collector saw
        "states": pa.string(),  # JSON text: bytes of parameters, gradients, optimizer state as the collector walked them
        "clock_offset_ns": pa.int64(),  # to add to this rank's stamps to stand on the reference host's clock
        "clock_error_ns": pa.int64(),  # NULL: stamps of this rank are not comparable with other ranks'
        "start_ns": pa.int64(),
        "end_ns": pa.int64(),
    }
)
_FACTS = (
    "world_size",
    "host",
    "devices",
    "device_name",
    "device_memory",
    "backend",
    "cores",
    "torch",
    "command",
    "loaders",
    "states",
)


def rank_rows(
    con: duckdb.DuckDBPyConnection, resolved: list[Resolved], sessions: list[Session]
) -> list[dict[str, Any]]:
    """Return the rows of ``ranks`` from trace headers, collector sessions and the extent of what was recorded."""
    rows: dict[int, dict[str, Any]] = {}
    relative: set[int] = set()
    for one in resolved:
        if one.capture is None or one.rank is None:
            continue
        row = rows.setdefault(one.rank, {"rank": one.rank})
        _fill(row, one.record)
        if one.relative:
            relative.add(one.rank)
        if one.record["start_ns"] is not None:
            _widen(row, one.record["start_ns"] + one.shift_ns, one.record["end_ns"] + one.shift_ns)
    for session in sessions:
        _fill(rows.setdefault(session["rank"], {"rank": session["rank"]}), session)
    for rank, start, end in con.execute("select rank, min(start_ns), max(end_ns) from timer group by rank").fetchall():
        _widen(rows.setdefault(rank, {"rank": rank}), start, end)
    _clocks(rows, relative)
    return [{name: row.get(name) for name in RANKS.names} for _, row in sorted(rows.items())]


def _fill(row: dict[str, Any], facts: dict[str, Any]) -> None:
    for name in _FACTS:
        if row.get(name) is None:
            fact = facts.get(name)
            row[name] = (
                shlex.join(fact)
                if name == "command" and fact
                else json.dumps(fact)
                if isinstance(fact, list | dict)
                else fact
            )


def _widen(row: dict[str, Any], start: int, end: int) -> None:
    row["start_ns"] = min(row.get("start_ns") or start, start)
    row["end_ns"] = max(row.get("end_ns") or end, end)


def _clocks(rows: dict[int, dict[str, Any]], relative: set[int]) -> None:
    """Ranks on the reference rank's host share its clock exactly; what other hosts' clocks say is not yet known."""
    reference = next((row["host"] for _, row in sorted(rows.items()) if row.get("host")), None)
    for rank, row in rows.items():
        if reference is not None and row.get("host") == reference and rank not in relative:
            row["clock_offset_ns"] = row["clock_error_ns"] = 0
