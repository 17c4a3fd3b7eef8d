"""The rows that the collector writes itself: Parquet of finished sessions, lines of JSON and shared memory of the others.

A write a step would cost short steps more than all the rest of the collector, for the way through the kernel empties
the caches. So rows go into memory that belongs to a file in ``/dev/shm`` and outlives the process, and into the run
ten times a second. What a kill left there is found by readers on the same host, and taken over by ``rescue``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct

import pyarrow as pa
import pyarrow.compute as pc

from .errors import StepscopeError
from .lines import no_rows, read_lines
from .processes import alive
from .schema import TIMER
from .writer import read_parquet

SHARED = Path("/dev/shm")
# start_ns, end_ns, wait_start_ns (0: none), wait_ns, batches (-1: not told), overhead_ns, profiled, step + 1. The step is
# written last: a row torn by a kill has the step of the one before in its place, which is in the run already, or 0.
ROW = Struct("=8q")


def shared_path(session: str) -> Path:
    """Return where the rows of a session stand that are not in the run yet."""
    return SHARED / f"stepscope-{session}.rows"


def as_lines(rows: bytes | memoryview, rank: int, session: str, after: int = -1) -> bytes:
    """Return the rows of steps after ``after`` as lines of JSON; what is unknown is left out."""
    head = f'{{"rank":{rank},"session":"{session}","step":'
    lines = []
    for start, end, wait_start, wait, batches, overhead, profiled, ordinal in ROW.iter_unpack(rows):
        if ordinal - 1 > after:
            waited = f'"wait_start_ns":{wait_start},"wait_ns":{wait},' if wait_start else ""
            given = f'"batches":{batches},' if batches >= 0 else ""
            lines.append(
                f'{head}{ordinal - 1},"start_ns":{start},"end_ns":{end},{waited}{given}"overhead_ns":{overhead},'
                f'"profiled":{"true" if profiled else "false"}}}\n'
            )
    return "".join(lines).encode()


def read_rows(folder: Path, damaged: Callable[[str], object] = str, schema: pa.Schema = TIMER) -> pa.Table:
    """Return all rows of a rank in a table of ``schema.COLLECTED``, of finished, running and killed sessions.

    Args:
        folder: ``RUN/timer/rank=00003``.
        damaged: Called with a sentence for every file that is left out because it cannot be read.
        schema: Of the table; only rows of the timer stand in shared memory.
    """
    sealed = sorted(folder.glob("*.parquet"))
    live = _live(folder)
    shared = {
        session: _shared(session) for session in live if schema is TIMER
    }  # first: what leaves it then is among the lines
    tables = [no_rows(schema)]
    for file in [*sealed, *(file for files in live.values() for file in files)]:
        try:
            tables.append(_conform(read_parquet(file), schema) if file in sealed else _told(file.read_bytes(), schema))
        except StepscopeError as error:
            damaged(str(error))
        except (OSError, pa.ArrowException) as error:
            damaged(f"{file} is damaged ({str(error).splitlines()[0]}) and left out: remove it.")
    written = pa.concat_tables(tables)
    return pa.concat_tables([written, *(_told(_rest(folder, *one, written), TIMER) for one in shared.items())])


def rescue(folder: Path) -> None:
    """Bring into the run what killed sessions of a rank left in this host's memory."""
    for session, files in _live(folder).items():
        shared, taken = shared_path(session), shared_path(f"{session}.{os.getpid()}")
        if not shared.exists() or alive(int(session.split("-")[1])):
            continue
        with suppress(OSError):  # another process was faster, or it is another user's
            shared.rename(taken)
            rest = _rest(folder, session, taken.read_bytes(), read_rows(folder))
            with files[-1].open("ab") as lines:
                lines.write(b"\n" + rest)  # the line before may be torn
            taken.unlink()


def _live(folder: Path) -> dict[str, list[Path]]:
    """Return the files of lines that no Parquet has replaced, by session."""
    live: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        if not file.with_suffix(".parquet").exists():
            live.setdefault(file.stem.partition(".")[0], []).append(file)
    return live


def _shared(session: str) -> bytes:
    try:
        return shared_path(session).read_bytes()
    except OSError:
        return b""


def _rest(folder: Path, session: str, rows: bytes, written: pa.Table) -> bytes:
    """Return as lines what of a session's shared rows is not among the written ones."""
    steps = written.filter(pc.equal(written["session"], session))["step"]
    last = pc.max(steps).as_py()
    return as_lines(rows, int(folder.name.partition("=")[2]), session, -1 if last is None else last)


def _told(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows that tell rank and step."""
    rows = read_lines(lines, schema)
    return rows.filter(pc.and_(rows["rank"].is_valid(), rows["step"].is_valid()))


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
