"""From trace files to a run: the one place where reading (`ingest`) and asking (`analyze`) meet.

A map task takes one source, does everything that concerns it alone and leaves its tables in a staging directory.
The driver moves them into the run, the row of ``sources`` last: a capture exists when that row does, so a kill at any
moment leaves whole captures only. What the sources mean together is worked out when a run is opened.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow as pa

from . import __version__
from .analyze.derive import derive, quality_table
from .analyze.memory_source import memory_source
from .ingest.capture import Capture, Rule, build_capture
from .ingest.discover import Found, discover
from .ingest.errors import StepscopeError
from .ingest.hashing import content_hash
from .ingest.identity import finished_steps, identity
from .ingest.load import Loaded, load
from .ingest.manifest import known_records, place, refresh_manifest, sweep_staging
from .ingest.resolve import Record
from .ingest.rows import first_row
from .ingest.schema import SOURCES
from .ingest.writer import create_run, write_parquet

# Of one task's DuckDB, tried in this order. With the first, Python and Arrow beside it, a task stays under 400 MB; a
# trace whose queries cannot spill enough gets more.
MEMORY_LIMITS = ("112MB", "512MB", "4GB")
SMALL = 8 << 20  # bytes of a file that begins with the second limit: it needs little, and spilling would cost it time
THREADS = 2  # of one task's DuckDB at most: each holds buffers of its own, and more make a trace hardly faster


@dataclass
class Ingested:
    """What one call of ``ingest`` did."""

    run: str  # its directory or URI
    records: list[Record]  # of the sources that were new or changed
    unchanged: int


def ingest(
    traces: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    generic: bool = False,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ingested:
    """Turn trace files into a run, or add them to one. Sources that are already in it (by content) cost nothing.

    Args:
        traces: Files, directories, globs or fsspec URIs, one or several.
        out: The run directory, or an fsspec URI.
        generic: Accept Chrome traces that are not Kineto's.
        executor: Where the map tasks run; a process pool by default, this process for a single source.
            ``dask.distributed``'s ``client.get_executor()`` works too.
        progress: Called with (sources done, sources in all).

    Raises:
        StepscopeError: A named input is missing, or the run cannot be written.
    """
    wanted = [traces] if isinstance(traces, (str, os.PathLike)) else traces
    found = discover([os.fspath(one) for one in wanted])
    run = os.fspath(out)
    try:
        with _local(run) as folder:
            done = _ingest(found, create_run(folder, __version__), generic, executor, progress)
    except (OSError, duckdb.IOException) as error:
        why = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
        raise StepscopeError(f"Cannot write all of the run {run}: {why}. Make room and ingest again.") from error
    except BrokenExecutor as error:
        why = "a process that read traces was killed, perhaps for want of memory"
        raise StepscopeError(f"The run {run} is not complete: {why}. Ingest again; what is done is kept.") from error
    return Ingested(run, done.records, done.unchanged)


def _ingest(
    found: list[Found],
    run: Path,
    generic: bool,
    executor: Executor | None,
    progress: Callable[[int, int], None] | None,
) -> Ingested:
    sweep_staging(run)
    known = {(one["source"], one["sha256"]) for one in known_records(run, damaged=str)}
    fresh = [one for one in found if (one.told, content_hash(one.source)) not in known]
    records: list[Record] = []
    with _mapped(fresh, run, generic, executor) as results:
        for done, (record, staging) in enumerate(results, start=1):
            if staging is not None:
                place(run, record, staging)
                records.append(record)
            if progress:
                progress(done, len(fresh))
    refresh_manifest(run, __version__)
    return Ingested(str(run), sorted(records, key=lambda one: one["source"]), len(found) - len(fresh))


@contextmanager
def _local(out: str) -> Iterator[str]:
    """Yield a run's directory; a run at a URI is fetched, added to, and put back."""
    if "://" not in out:
        yield out
        return
    try:
        fs, root = fsspec.core.url_to_fs(out)
        with tempfile.TemporaryDirectory(prefix="stepscope-run-") as temporary:
            if fs.exists(f"{root.rstrip('/')}/run.json"):
                fs.get(f"{root.rstrip('/')}/", f"{temporary}/", recursive=True)
            yield temporary
            shutil.rmtree(Path(temporary) / ".staging", ignore_errors=True)
            fs.put(f"{temporary}/", f"{root.rstrip('/')}/", recursive=True)
    except (OSError, ValueError, ImportError) as error:
        raise StepscopeError(f"Cannot write the run at {out}: {error}.") from error


def pending_traces(run: str | os.PathLike[str]) -> list[str]:
    """Return what the collector left in a run and is not ingested yet: windows of a job that was killed, memory snapshots."""
    left = [*Path(run).glob("raw/rank=*/*.json*"), *Path(run).glob("snapshots/rank=*/*.pickle")]
    raw = sorted(str(path) for path in left if not path.name.startswith("."))
    if not raw:
        return []
    known = {os.path.abspath(record["source"]) for record in known_records(run)}
    return [path for path in raw if os.path.abspath(path) not in known]


Result = tuple[Record, Path | None]


@contextmanager
def _mapped(found: list[Found], run: Path, generic: bool, executor: Executor | None) -> Iterator[Iterator[Result]]:
    """Yield the results of the map tasks as they come."""
    cores = os.cpu_count() or 1
    if executor is None and len(found) <= 1:
        yield (map_source(one, run, generic, min(THREADS, cores)) for one in found)
        return
    workers = min(len(found), cores)
    pool = executor or ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        with _without_main():
            tasks = [
                pool.submit(map_source, one, run, generic, max(1, min(THREADS, cores // workers))) for one in found
            ]
        yield (task.result() for task in as_completed(tasks))
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _without_main() -> Iterator[None]:
    """Start processes that do not import the caller's script: it need not guard its main part to call us."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main).pop(name) for name in ("__file__", "__spec__") if name in vars(main)}
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)


def map_source(found: Found, run: Path, generic: bool, threads: int) -> Result:
    """Read one source into a staging directory of the run.

    Returns:
        The source's record, and the directory; None instead of it for JSON that was only come across and is no trace.
    """
    staging = run / ".staging" / f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    staging.mkdir(parents=True)
    try:
        try:
            record, tables = _read_frugally(found, staging, generic, threads)
        except (duckdb.DataError, ValueError, OverflowError) as error:  # in what the file holds: it costs only itself
            (staging / "events.parquet").unlink(missing_ok=True)
            record, tables = _given_up(found, error)
        if tables is None:
            shutil.rmtree(staging)
            return record, None
        for name, table in tables.items():
            if len(table):
                write_parquet(table, staging / f"{name}.parquet")
        write_parquet(pa.Table.from_pylist([record], schema=SOURCES), staging / "sources.parquet")
        return record, staging
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _read_frugally(
    found: Found, staging: Path, generic: bool, threads: int
) -> tuple[Record, dict[str, pa.Table] | None]:
    """Read a source with as little memory as does."""
    small = os.path.exists(found.source) and os.path.getsize(found.source) <= SMALL
    for limit in MEMORY_LIMITS[1 if small else 0 : -1]:
        try:
            with _frugal(staging, threads, limit) as con:
                return _read(con, found, staging, generic)
        except duckdb.OutOfMemoryException:
            continue
    with _frugal(staging, threads, MEMORY_LIMITS[-1]) as con:
        return _read(con, found, staging, generic)


@contextmanager
def _frugal(staging: Path, threads: int, limit: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that spills beyond its memory limit, while Arrow gives back what it no longer needs."""
    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        with duckdb.connect(config={"threads": threads, "memory_limit": limit}) as con:
            con.execute(f"set temp_directory = '{str(staging / 'spill').replace(chr(39), chr(39) * 2)}'")
            con.execute("set enable_progress_bar = false")  # DuckDB shows its own in a prompt
            yield con
    finally:
        pa.set_memory_pool(pool)


def _read(
    con: duckdb.DuckDBPyConnection, found: Found, staging: Path, generic: bool
) -> tuple[Record, dict[str, pa.Table] | None]:
    """Return a source's record and its tables but ``events``, which are written; None when it should not be listed."""
    if (told := memory_source(found.source, found.named)) is not None:
        loaded, tables = told
        record = _record(found, loaded)
        return record, None if loaded.no_trace else {**tables, "quality": _problems(loaded, record)}
    loaded = load(found.source, con, generic=generic)
    record = _record(found, loaded)
    if loaded.verdict == "quarantined":
        unlisted = loaded.no_trace and not found.named
        return record, None if unlisted else {"quality": _problems(loaded, record)}
    capture = build_capture(
        con, record["capture_id"], loaded.base_ns, staging / "events.parquet", finished_steps(loaded.header)
    )
    record.update(_extent(capture))
    tables = derive(capture, found.told, loaded.header)
    tables["quality"] = pa.concat_tables([_problems(loaded, record), tables["quality"]])
    return record, tables


def _given_up(found: Found, error: Exception) -> tuple[Record, dict[str, pa.Table]]:
    """Return the record and tables of a source in which something stands that nobody foresaw."""
    reason = f"holds what Stepscope cannot digest ({str(error).strip().splitlines()[0]}); please report it"
    loaded = Loaded(sha256=content_hash(found.source) or "", verdict="quarantined", reason=reason)
    record = _record(found, loaded)
    return record, {"quality": _problems(loaded, record)}


def _record(found: Found, loaded: Loaded) -> Record:
    told = {name: getattr(loaded, name) for name in SOURCES.names if hasattr(loaded, name)}
    usable = loaded.verdict != "quarantined"
    return {
        **dict.fromkeys(SOURCES.names),
        **told,
        **identity(loaded.header, found.told),
        "source": found.told,
        "capture_id": int(loaded.sha256[:15], 16) if usable else None,
        "header": json.dumps(loaded.header, default=str),
    }


def _problems(loaded: Loaded, record: Record) -> pa.Table:
    rows: list[Rule] = [(one.rule, one.count, None, one.sentence) for one in loaded.problems]
    return quality_table(record["source"], record["capture_id"], rows)


def _extent(capture: Capture) -> Record:
    start, end = first_row(
        capture.con.execute(
            """
        select min(start_ns), max(start_ns + coalesce(dur_ns, 0)) from events
        where kind not in ('other', 'overhead') and not coalesce(list_contains(flags, 'foreign_clock'), false)
        """
        )
    ) or (None, None)
    return {"start_ns": start, "end_ns": end, "n_steps": len(capture.steps)}
