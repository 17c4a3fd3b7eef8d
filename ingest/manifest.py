"""Which sources a run holds: their records, their files' places, and the summary in ``run.json``.

The rows of ``sources`` are the truth, a file each, so writers need no lock. ``run.json`` repeats them for readers
without Parquet and is written anew after every ingestion.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from .errors import StepscopeError
from .processes import alive
from .resolve import Record, Resolved, coverage, resolve
from .schema import CAPTURE_TABLES, SCHEMA
from .sessions import read_sessions
from .writer import is_whole, rank_dir, read_parquet, table_path, write_json


def known_records(run: str | os.PathLike[str], damaged: Callable[[str], object] | None = None) -> list[Record]:
    """Return the records of all sources of a run, in no particular order; a record that cannot be read is left out.

    Args:
        run: The run directory.
        damaged: Have all files looked at, and leave out the sources of which one is damaged. It is called with a
            sentence for each such file.
    """
    tell = damaged or str
    records: list[Record] = []
    for file in sorted((Path(run) / "sources").glob("rank=*/*.parquet")):
        try:
            records += read_parquet(file).to_pylist()
        except StepscopeError as error:
            tell(str(error))
    if damaged is None:
        return records
    files = (file for table in CAPTURE_TABLES for file in sorted((Path(run) / table).glob("rank=*/*.parquet")))
    broken = {file.stem: file for file in files if not is_whole(file)}
    for sha256 in {record["sha256"] for record in records} & set(broken):
        tell(f"{broken[sha256]} is damaged, so its source is left out: ingest that again.")
    return [record for record in records if record["sha256"] not in broken]


def place(run: Path, record: Record, staging: Path) -> None:
    """Move a source's staged tables into the run, its record last."""
    rank = record["claimed_rank"]
    for table in CAPTURE_TABLES:
        staged = staging / f"{table}.parquet"
        if staged.exists():
            target = table_path(run, table, rank, record["sha256"])
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(staged, target)
    place_record(run, record, staging / "sources.parquet")
    shutil.rmtree(staging, ignore_errors=True)


def place_record(run: Path, record: Record, staged: Path) -> None:
    """Move a source's record into the run: from now on the source is part of it."""
    name = f"{record['sha256']}-{hashlib.sha256(record['source'].encode()).hexdigest()[:8]}"
    target = table_path(run, "sources", record["claimed_rank"], name)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(staged, target)


def relocate(run: Path, resolved: list[Resolved]) -> None:
    """Bring the files of captures whose rank only the whole set tells into their rank's directory."""
    for one in resolved:
        if one.capture is None or one.record["claimed_rank"] is not None:
            continue
        name = f"{one.record['sha256']}.parquet"
        for table in CAPTURE_TABLES:
            target = run / table / rank_dir(one.rank) / name
            for file in (run / table).glob(f"rank=*/{name}"):
                if file != target:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(file, target)


def refresh_manifest(run: Path, tool_version: str) -> None:
    """Write ``run.json`` from the records; again when another writer added some meanwhile."""
    while True:
        records = known_records(run)
        resolved = resolve(records)
        relocate(run, resolved)
        write_json(
            {
                "schema": SCHEMA,
                "tool_version": tool_version,
                "coverage": coverage(resolved),
                "sources": [_summary(one) for one in resolved],
                "sessions": read_sessions(run),
            },
            run / "run.json",
        )
        if len(known_records(run)) == len(records):
            return


def _summary(one: Resolved) -> dict[str, object]:
    told = {key: one.record[key] for key in ("source", "sha256", "bytes", "verdict", "events")}
    reason = "; ".join(filter(None, [one.record["reason"], one.reason]))
    return {
        **told,
        "reason": reason,
        "rank": one.rank,
        "capture": one.capture,
        "rank_source": one.rank_source,
    }


def sweep_staging(run: Path) -> None:
    """Remove staging directories that a killed ingestion left behind on this host."""
    for left in (run / ".staging").glob("*-*-*"):
        host, pid = left.name.rsplit("-", 2)[:2]
        if host == socket.gethostname() and not alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
