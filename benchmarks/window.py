"""What a profiler window costs, against torch.profiler itself with the same options on the same steps."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import duckdb
import torch
from torch.profiler import ProfilerActivity, schedule

import stepscope

from .result import Figure
from .training import Step, training_step

ROUNDS = 8
WARM, ACTIVE = 20, 10  # steps before the window, and in it


def measure() -> tuple[list[Figure], str]:
    step, batches = training_step()
    ours, theirs = [], []
    for turn in range(ROUNDS + 1):
        with tempfile.TemporaryDirectory() as folder:
            pair = _ours(step, batches, Path(folder)), _bare(step, batches, Path(folder))
        if turn:  # the first turn warms up
            ours.append(pair[0])
            theirs.append(pair[1])
    inside = median(a[0] / b[0] for a, b in zip(ours, theirs, strict=True))
    blocked = median(a[1] / b[1] for a, b in zip(ours, theirs, strict=True))
    how = f"median of {ROUNDS} pairs of windows of {ACTIVE} steps of about 5 ms, CPU activity, shapes, memory; "
    told = f"ours {1000 * median(a[1] for a in ours):.1f} ms, bare {1000 * median(b[1] for b in theirs):.1f} ms"
    return [
        Figure("Step time in our window / in bare torch.profiler", inside, "x", "", how + "median step of each"),
        Figure("Loop blocked when a window ends / bare, trace exported", blocked, "x", "", how + told),
    ], ""


def _ours(step: Step, batches: list[torch.Tensor], folder: Path) -> tuple[float, float]:
    """Return the median step inside the window and how long the loop waited at its end, in seconds."""
    window = stepscope.every(10_000, active=ACTIVE, first=WARM, slow=None)
    with stepscope.profile(folder / "run", window=window) as prof:
        for batch in prof.data(batches):
            step(batch)
            prof.step()
    query = f"""
        with rows as (
            select *, lead(start_ns) over (order by step) - end_ns as gap_ns,
                profiled and not lead(profiled) over (order by step) as last
            from read_parquet('{folder}/run/timer/*/*')
        )
        select median(end_ns - start_ns) filter (profiled), max(gap_ns) filter (last) from rows
    """
    ((inside, gap),) = duckdb.sql(query).fetchall()
    return inside / 1e9, gap / 1e9


def _bare(step: Step, batches: list[torch.Tensor], folder: Path) -> tuple[float, float]:
    """Do the same with torch.profiler alone."""
    steps: list[float] = []
    profiler = torch.profiler.profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        schedule=schedule(wait=WARM - 1, warmup=1, active=ACTIVE, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(folder / "bare.json")),
    )
    blocked = 0.0
    with profiler:
        for number, batch in enumerate(batches):
            begun = perf_counter()
            step(batch)
            worked = perf_counter()
            profiler.step()
            if WARM <= number < WARM + ACTIVE:
                steps.append((worked if number == WARM + ACTIVE - 1 else perf_counter()) - begun)
            if number == WARM + ACTIVE - 1:
                blocked = perf_counter() - worked
    return median(steps), blocked
