"""What the always-on collector adds to a step."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

import stepscope

from .result import Figure
from .training import Step, training_step

PAIRS = 40
RUN = Path(__file__).parent / ".cache" / "collector"


def measure() -> tuple[list[Figure], str]:
    step, batches = training_step()
    order = random.Random(0)
    added, bare = [], []
    shutil.rmtree(RUN, ignore_errors=True)  # not at the end: a watched run is written until the process ends
    _block(stepscope.watch(batches, RUN, window=None), step)  # its files exist before anything is timed
    for _ in range(PAIRS):
        loaders = {"bare": batches, "watched": stepscope.watch(batches, RUN, window=None)}
        seconds = {name: _block(loaders[name], step) for name in order.sample(sorted(loaders), 2)}
        bare.append(seconds["bare"])
        added.append(seconds["watched"] / seconds["bare"] - 1)
    own = _own_share()
    how = (
        f"{PAIRS} pairs of {len(batches)} steps with and without stepscope.watch(window=None), in random order in one "
        f"process; median of the pairs' differences of whole blocks; a bare step took {1000 * median(bare) / len(batches):.2f} ms"
    )
    told = "what the collector itself says: median overhead_ns / median step; wall time, so preemption counts"
    return [
        Figure("Always-on collector on a 5 ms CPU step", 100 * median(added), "%", "<= 1", how),
        Figure("The same by the collector's own account", 100 * own, "%", "<= 1", told),
    ], ""


def _block(loader: Iterable[torch.Tensor], step: Step) -> float:
    begun = perf_counter()
    for batch in loader:
        step(batch)
    return perf_counter() - begun


def _own_share() -> float:
    with stepscope.open_run(RUN) as run:
        ((share,),) = run.sql("select median(overhead_ns) / median(end_ns - start_ns) from timer").fetchall()
    return float(share)
