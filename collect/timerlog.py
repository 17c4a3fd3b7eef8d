"""One row a finished step, where a kill does not reach it before the next step ends.

While the job runs, rows go into shared memory and from there, in batches, as lines of JSON into the run. At the end, and
every ``ROTATE`` rows, those become Parquet. ``ingest.timer_rows`` has the other half: what readers do.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..ingest.lines import read_lines
from ..ingest.schema import TIMER
from ..ingest.timer_rows import ROW, as_lines, read_rows, rescue
from ..ingest.writer import rank_dir, table_path, write_parquet
from .appender import Appender
from .guard import guarded
from .shared_rows import release, shared_rows

ROTATE = 100_000  # rows, about 20 MB of lines
NOTHING: Mapping[str, int] = {}


def next_step(run: Path, rank: int) -> int:
    """Return the first step number that earlier sessions of this rank have not used."""
    folder = run / "timer" / rank_dir(rank)
    with suppress(Exception):  # whatever lies about there, it does not keep a job from being recorded
        rescue(folder)
        last = pc.max(read_rows(folder)["step"]).as_py()
        return 0 if last is None else int(last) + 1
    return 0


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
        self._rank = rank
        self._session = session
        self._first = table_path(run, "timer", rank, session).with_suffix(".jsonl")
        self._parts = 0
        self._begin_part()
        self._at = 0
        self._rows: Any
        try:
            self._rows = shared_rows(session)
            self._shared = True
        except (OSError, AttributeError):  # every row goes into the run by itself then
            self._rows = bytearray(ROW.size)
            self._shared = False
        self._end = len(self._rows)

    def append(
        self,
        step: int,
        start_ns: int,
        end_ns: int,
        wait_start_ns: int,
        wait_ns: int,
        batches: int,
        overhead_ns: int,
        profiled: bool,
    ) -> bool:
        """Note the row of a finished step of the session, and tell whether the next one needs a ``flush`` before.

        Columns are those of ``ingest.schema.TIMER``, what is unknown as in ``ingest.timer_rows.ROW``.
        """
        at = self._at
        ROW.pack_into(
            self._rows,
            at,
            start_ns,
            end_ns,
            wait_start_ns,
            wait_ns,
            batches,
            overhead_ns,
            profiled,
            self.base + step + 1,
        )
        self._at = at + ROW.size
        return self._at == self._end

    def flush(self, held: Mapping[str, int] = NOTHING) -> bool:
        """Bring the rows noted into the run; False when it was deleted meanwhile, and made anew.

        Args:
            held: Columns that tell of memory, for the last row.
        """
        there = self._file.check()
        rows, self._at = self._at // ROW.size, 0
        if not rows:
            return there
        lines = as_lines(memoryview(self._rows)[: rows * ROW.size], self._rank, self._session)
        if held:
            told = "".join(f',"{column}":{size}' for column, size in held.items())
            lines = lines[:-2] + f"{told}}}\n".encode()
        self._file.write(lines)
        self._written += rows
        if self._written >= ROTATE:
            self._file.close()
            threading.Thread(target=self._seal, args=(self._file.path,), name="stepscope-seal", daemon=True).start()
            self._begin_part()
        return there

    @guarded
    def close(self) -> None:
        """Turn the rows into Parquet."""
        self.dead = True
        try:
            self.flush()
            self._file.close()
            seal(self._file.path)
        finally:
            rows, self._rows = self._rows, bytearray()
            if self._shared:
                release(self._session, rows)

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are."""

    @guarded
    def _seal(self, full: Path) -> None:
        seal(full)

    def _begin_part(self) -> None:
        part = f".{self._parts}" if self._parts else ""
        self._file = Appender(self._first.with_name(f"{self._first.stem}{part}.jsonl"))
        self._parts += 1
        self._written = 0


def seal(path: Path, schema: pa.Schema = TIMER) -> None:
    """Turn a file of lines into the Parquet file of the same name, then remove it."""
    write_parquet(read_lines(path.read_bytes(), schema), path.with_suffix(".parquet"))
    path.unlink()
