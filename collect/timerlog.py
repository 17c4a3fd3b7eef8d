"""One row a finished step, on disk before the next step ends.

While the job runs, rows are lines of JSON appended by one ``write`` each, so a kill loses no finished step.
At the end, and every ``ROTATE`` rows, they become Parquet. A reader that finds both takes the Parquet.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from ..ingest.schema import TIMER
from ..ingest.writer import rank_dir, table_path, write_parquet
from .guard import guarded

ROTATE = 100_000  # rows, about 25 MB of lines


def next_step(run: Path, rank: int) -> int:
    """Return the first step number that earlier sessions of this rank have not used."""
    last = -1
    folder = run / "timer" / rank_dir(rank)
    for path in folder.glob("*.parquet"):
        last = max(last, *pq.read_table(path, columns=["step"])["step"].to_pylist(), -1)
    for path in folder.glob("*.jsonl"):
        last = max(last, *read_lines(path)["step"].to_pylist(), -1)
    return last + 1


def read_lines(path: Path, schema: pa.Schema = TIMER) -> pa.Table:
    """Return the whole rows of a live file; a torn last line is left out."""
    whole = path.read_bytes().rpartition(b"\n")[0]
    if not whole:
        return schema.empty_table()
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pj.read_json(pa.BufferReader(whole), parse_options=options).select(schema.names)


def seal(path: Path, schema: pa.Schema = TIMER) -> None:
    """Turn a live file into the Parquet file of the same name, then remove it."""
    write_parquet(read_lines(path, schema), path.with_suffix(".parquet"))
    path.unlink()


class TimerLog:
    """The timer rows of one session.

    Args:
        run: The run directory.
        rank: The rank whose steps these are.
        session: The session's id.
        base: The job's own number of the session's first step.
    """

    what = "step timer"

    def __init__(self, run: Path, rank: int, session: str, base: int) -> None:
        self.dead = False
        self.base = base
        self._head = f'{{"rank":{rank},"session":"{session}"'
        self._first = table_path(run, "timer", rank, session).with_suffix(".jsonl")
        self._first.parent.mkdir(parents=True, exist_ok=True)
        self._parts = 0
        self._open()

    @guarded
    def append(
        self,
        step: int,
        start_ns: int,
        end_ns: int,
        wait_start_ns: int | None,
        wait_ns: int | None,
        batches: int | None,
        allocated: int | None,
        reserved: int | None,
        rss: int | None,
        overhead_ns: int,
        profiled: bool,
    ) -> None:
        """Append the row of a finished step of the session; columns as in ``ingest.schema.TIMER``."""
        line = (
            f'{self._head},"step":{self.base + step},"start_ns":{start_ns},"end_ns":{end_ns},'
            f'"wait_start_ns":{_json(wait_start_ns)},"wait_ns":{_json(wait_ns)},"batches":{_json(batches)},'
            f'"allocated":{_json(allocated)},"reserved":{_json(reserved)},"rss":{_json(rss)},'
            f'"overhead_ns":{overhead_ns},"profiled":{"true" if profiled else "false"}}}\n'
        ).encode()
        if os.write(self._fd, line) != len(line):
            raise OSError(f"{self._path} takes no more rows (is the disk full?)")
        self._rows += 1
        if self._rows == ROTATE:
            os.close(self._fd)
            threading.Thread(target=self._seal, args=(self._path,), name="stepscope-seal", daemon=True).start()
            self._open()

    @guarded
    def close(self) -> None:
        """Turn the live rows into Parquet."""
        self.dead = True
        os.close(self._fd)
        seal(self._path)

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are."""

    @guarded
    def _seal(self, full: Path) -> None:
        seal(full)

    def _open(self) -> None:
        part = f".{self._parts}" if self._parts else ""
        self._path = self._first.with_name(f"{self._first.stem}{part}.jsonl")
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._parts += 1
        self._rows = 0


def _json(value: int | None) -> str:
    return "null" if value is None else str(value)
