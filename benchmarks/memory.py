"""Peak memory of ingesting large traces, and whether what comes out is right."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq

import stepscope

from .generate import EVENTS_PER_STEP, LEDGER, MARKER_NS, write_trace
from .result import Figure

SIZES = (1_000_000_000, 3_000_000_000)
FOLDER = Path(__file__).parent / ".cache" / "memory"


def measure() -> tuple[list[Figure], str]:
    peaks = {}
    figures = []
    for size in SIZES:
        try:
            peaks[size], seconds = _ingest(size)
        finally:
            shutil.rmtree(FOLDER, ignore_errors=True)
        how = f"max RSS of `stepscope ingest` and its children; took {seconds:.0f} s; every step's ledger checked to the ns"
        figures.append(Figure(f"Peak memory, {size // 10**9} GB trace", peaks[size], "MB", "<= 400", how))
    ratio = peaks[SIZES[1]] / peaks[SIZES[0]]
    figures.append(Figure("Peak memory, 3 GB trace / 1 GB trace", ratio, "x", "<= 1.1", "flat is 1"))
    return figures, ""


def _ingest(size: int) -> tuple[float, float]:
    """Generate and ingest a trace; return its peak memory in MB (10^6 bytes) and the seconds it took."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    trace, run = FOLDER / "generated.json", FOLDER / "run"
    steps = write_trace(trace, size)
    begun = perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "stepscope", "ingest", str(trace), "-o", str(run)], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = perf_counter() - begun
    if child.returncode:
        raise RuntimeError(f"the ingest of {size} bytes ended with {child.returncode}")
    _check(run, steps)
    return usage.ru_maxrss * 1024 / 1e6, seconds


def _check(run: Path, steps: int) -> None:
    with stepscope.open_run(run) as opened:
        rows = opened.sql("select category, min(ns), max(ns), count(*) from ledger group by category").fetchall()
        found = {category: (least, most, count) for category, least, most, count in rows}
        assert found == {category: (ns, ns, steps) for category, ns in LEDGER.items()}, f"wrong ledger: {found}"
        assert opened.sql("select min(dur_ns), max(dur_ns) from steps").fetchall() == [(MARKER_NS, MARKER_NS)]
    (events,) = run.glob("events/*/*.parquet")
    ids = pq.read_table(events, columns=["event_id"])["event_id"].to_numpy()
    assert np.array_equal(ids, np.arange(steps * EVENTS_PER_STEP + 2)), "events are missing or out of file order"
