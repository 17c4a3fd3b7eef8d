"""Write the files of a run so that a kill leaves either the old file or the new one.

Every file is written under a temporary name in its own directory and renamed. Writers never share a file: each rank
and each capture has its own, so any number of processes can write into one run directory at once without a lock.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import StepscopeError
from .schema import SCHEMA, SCHEMA_FAMILY


def rank_dir(rank: int | None) -> str:
    """Return the hive directory of a rank: ``rank=00003``, or ``rank=unknown`` for None."""
    return "rank=unknown" if rank is None else f"rank={rank:05d}"


def table_path(run: str | os.PathLike[str], table: str, rank: int | None, name: str) -> Path:
    """Return where the file ``name`` of ``table`` and ``rank`` stands in a run."""
    return Path(run) / table / rank_dir(rank) / f"{name}.parquet"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it into place on success, remove it on failure."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_parquet(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write an Arrow table as zstd Parquet, atomically. The same table gives the same bytes."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_parquet(path: str | os.PathLike[str]) -> pa.Table:
    """Return the whole of one file of a run.

    Raises:
        StepscopeError: It is no Parquet, or not all of it.
    """
    try:
        return pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        why = str(error).strip().splitlines()[0]
        raise StepscopeError(
            f"{path} is damaged ({why}) and left out: remove it, or ingest its source again."
        ) from error


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Tell, at the price of opening it, whether a file begins and ends as Parquet does."""
    try:
        with open(path, "rb") as file:
            begins = file.read(4) == b"PAR1"
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 8))
            tail = file.read()
    except OSError:
        return False
    return begins and tail.endswith(b"PAR1") and 0 < int.from_bytes(tail[:4], "little") <= size - 12


def write_json(value: Any, path: str | os.PathLike[str]) -> None:
    """Write JSON with sorted keys, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True, default=str) + "\n")


def create_run(run: str | os.PathLike[str], tool_version: str) -> Path:
    """Make ``run`` a run directory if it is none yet, and return it.

    Raises:
        StepscopeError: The directory cannot be written, holds other files, or is a run of a newer schema.
    """
    if not os.fspath(run):
        raise StepscopeError("The run directory needs a name. Give one with -o.", exit_code=2)
    run = Path(run)
    try:
        run.mkdir(parents=True, exist_ok=True)
        if not (run / "run.json").exists():
            write_json({"schema": SCHEMA, "tool_version": tool_version, "sources": []}, run / "run.json")
    except OSError as error:
        raise StepscopeError(
            f"Cannot write the run directory {run}: {error.strerror or error}. Choose another with -o."
        ) from error
    read_manifest(run)
    return run


def read_manifest(run: str | os.PathLike[str]) -> dict[str, Any]:
    """Return ``run.json`` of a run.

    Raises:
        StepscopeError: It is missing, unreadable, or of a schema this version does not know.
    """
    path = Path(run) / "run.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
        schema = str(manifest["schema"])
    except FileNotFoundError:
        raise StepscopeError(
            f"{run} is not a Stepscope run (no run.json). Make one with: stepscope ingest TRACE... -o {run}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StepscopeError(f"{path} is damaged ({error}). Ingest the traces again into a new directory.") from error
    if not schema.startswith(SCHEMA_FAMILY):
        raise StepscopeError(f"{path} does not describe a Stepscope run (its schema is {schema!r}).")
    if schema != SCHEMA:
        raise StepscopeError(
            f"{run} was written with schema {schema}; this version reads {SCHEMA}. Upgrade Stepscope to read it."
        )
    return manifest
