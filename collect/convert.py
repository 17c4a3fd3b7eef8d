"""Raw traces become Parquet in a process of their own, at low priority, one at a time.

A daemon thread hands them over and sleeps while the process works. What is left when the job ends or is
killed stays in ``RUN/raw`` for the next ``stepscope ingest``, ``analyze`` or ``report`` of the run.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from ..ingest.writer import replacing
from .guard import logger

PATIENCE = 60.0  # seconds that the end of a job waits for conversions
LAUNCHER = (
    "RANK",
    "LOCAL_",
    "GROUP_",
    "ROLE_",
    "WORLD_SIZE",
    "MASTER_",
    "TORCHELASTIC_",
    "OMPI_",
    "PMI_",
    "SLURM_",
)


class Converter:
    """Turns the raw traces of one session into Parquet.

    Args:
        run: The run directory.
        keep_raw: Keep the raw traces, gzipped, instead of deleting them after conversion.
    """

    def __init__(self, run: Path, keep_raw: bool) -> None:
        self._run = run
        self._keep_raw = keep_raw
        self._waiting: queue.Queue[Path | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._told = False

    def take(self, raw: Path) -> None:
        """Convert ``raw`` some time soon."""
        self._waiting.put(raw)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="stepscope-convert", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait, not forever, until every trace taken is converted."""
        if self._thread is None:
            return
        self._waiting.put(None)
        self._thread.join(2.0)
        if self._thread.is_alive():
            logger.warning(
                "Turning the last traces into Parquet (at most %.0f s; Ctrl-C leaves them in %s)",
                PATIENCE,
                self._run / "raw",
            )
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                logger.warning("Gave up waiting: `stepscope ingest %s -o %s` takes up the rest.", self._run, self._run)
        self._thread = None

    def _work(self) -> None:
        while (raw := self._waiting.get()) is not None:
            try:
                self._convert(_compressed(raw) if self._keep_raw else raw)
            except Exception as error:
                self._tell(raw, str(error))

    def _convert(self, raw: Path) -> None:
        # -P: a module of the job's folder must not stand in for one of the standard library.
        command = [
            sys.executable,
            "-P",
            "-m",
            "stepscope.cli",
            "ingest",
            str(raw),
            "-o",
            str(self._run),
            "--quiet",
        ]
        process = subprocess.Popen(
            command,
            env=_quiet_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # A Ctrl-C at the job's terminal is not meant for it. Not a new session: Linux may weigh whole sessions
            # against each other, and the low priority would count for nothing.
            process_group=0,
        )
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        _, errors = process.communicate()
        if process.returncode:
            self._tell(raw, (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1])
        elif not self._keep_raw:
            raw.unlink(missing_ok=True)

    def _tell(self, raw: Path, why: str) -> None:
        if not self._told:
            logger.warning("%s was not turned into Parquet and stays as it is. Cause: %s", raw, why)
        self._told = True


def _compressed(raw: Path) -> Path:
    path = raw.with_name(f"{raw.name}.gz")
    with (
        replacing(path) as temporary,
        open(raw, "rb") as plain,
        gzip.open(temporary, "wb", compresslevel=3) as packed,
    ):
        shutil.copyfileobj(plain, packed, 1 << 20)
    raw.unlink()
    return path


def _quiet_environment() -> dict[str, str]:
    """Return the environment without what would make the process take itself for a rank of the job."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER)}
    return {**kept, "OMP_NUM_THREADS": "1"}
