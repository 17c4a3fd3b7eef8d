"""What the always-on collector left in a run: session facts and rows, finished or cut off by a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from .schema import COLLECTED
from .writer import read_parquet

Session = dict[str, Any]


def read_sessions(run: Path) -> list[Session]:
    """Return the facts of every collector session, by rank and start; unreadable files are left out."""
    sessions = []
    for file in (run / "sessions").glob("rank=*/*.json"):
        try:
            session = json.loads(file.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(session, dict) and isinstance(session.get("rank"), int):
            sessions.append(session)
    return sorted(sessions, key=lambda one: (one["rank"], one.get("started_ns") or 0, str(one.get("session"))))


def collected(run: Path, name: str) -> pa.Table:
    """Return every row of a table that the collector writes (``schema.COLLECTED``).

    A session that was killed has its rows as JSON lines, the last of which may be torn.
    """
    schema = COLLECTED[name]
    tables = [read_parquet(file) for file in sorted((run / name).glob("rank=*/*.parquet"))]
    finished = {file.stem for file in (run / name).glob("rank=*/*.parquet")}
    for file in sorted((run / name).glob("rank=*/*.jsonl")):
        if file.stem not in finished:
            tables.append(_lines(file, schema))
    return pa.concat_tables([_conform(table, schema) for table in tables]) if tables else schema.empty_table()


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table[name].cast(schema.field(name).type)
        if name in table.column_names
        else pa.nulls(len(table), schema.field(name).type)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _lines(file: Path, schema: pa.Schema) -> pa.Table:
    rows = []
    for line in file.read_bytes().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int) and isinstance(row.get("rank"), int):
            rows.append({name: row.get(name) for name in schema.names})
    return pa.Table.from_pylist(rows, schema=schema)
