"""What the always-on collector adds to a step."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median, stdev
from time import perf_counter

import torch

import stepscope
from stepscope.collect import Window

from .result import Figure
from .training import Step, training_step

PAIRS, STEPS = 150, 100  # blocks of each kind, and steps a block: about half a second, so that ticks count as they do
TRIMMED = 10  # the part of the pairs left out at either end: something else ran on the machine
RUN = Path(__file__).parent / ".cache" / "collector"
NEVER = Window(first=10**9, slow=1e9)  # everything is looked after, and no window opens


def measure() -> tuple[list[Figure], str]:
    step, batches = training_step()
    order = random.Random(0)
    shutil.rmtree(RUN, ignore_errors=True)  # not at the end: a watched run is written until the process ends
    loops = {
        "bare": itertools.cycle(batches),
        "watched": iter(stepscope.watch(itertools.cycle(batches), RUN, window=NEVER)),
    }
    added, bare = [], []
    for turn in range(PAIRS + 1):
        seconds = {name: _block(loops[name], step) for name in order.sample(sorted(loops), 2)}
        if turn:  # the first one warms up
            added.append((seconds["watched"] - seconds["bare"]) / STEPS)
            bare.append(seconds["bare"] / STEPS)
    took = median(bare)
    kept = sorted(added)[PAIRS // TRIMMED : -PAIRS // TRIMMED]
    error = 2 * stdev(kept) / len(kept) ** 0.5
    how = (
        f"{PAIRS} pairs of {STEPS} steps with and without stepscope.watch, memory and requests looked after, in random order "
        f"in one process; mean of the middle 80 % of the pairs' differences, +- {100 * error / took:.2f} (two standard "
        f"errors); a bare step took {1000 * took:.2f} ms"
    )
    told = "what the collector itself says: overhead_ns over step time, of the steps under twice the median"
    return [
        Figure("Always-on collector on a 5 ms CPU step", 100 * mean(kept) / took, "%", "<= 0.5", how),
        Figure("The same by the collector's own account", 100 * _own_share(), "%", "<= 0.5", told),
    ], ""


def _block(loop: Iterator[torch.Tensor], step: Step) -> float:
    begun = perf_counter()
    for batch in itertools.islice(loop, STEPS):
        step(batch)
    return perf_counter() - begun


def _own_share() -> float:
    query = """
        with rows as (select overhead_ns, end_ns - start_ns as dur_ns from timer)
        select sum(overhead_ns) / sum(dur_ns) from rows where dur_ns < 2 * (select median(dur_ns) from rows)
    """
    with stepscope.open_run(RUN) as run:
        ((share,),) = run.sql(query).fetchall()
    return float(share)
