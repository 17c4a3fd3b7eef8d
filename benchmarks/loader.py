"""What following batches adds to a loader whose batches take 1 ms each, in a loop that does nothing but ask."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import stepscope

from .result import Figure

PAIRS = 30
BATCHES = 300
PER_BATCH = 8
RUN = Path(__file__).parent / ".cache" / "loader"
_MATRIX = torch.ones(96, 96)


class Samples(Dataset):
    """Samples of 1 / PER_BATCH ms of CPU each."""

    def __len__(self) -> int:
        return BATCHES * PER_BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        until = time.thread_time() + 0.001 / PER_BATCH
        while time.thread_time() < until:
            _MATRIX @ _MATRIX
        return _MATRIX[0]


def measure() -> tuple[list[Figure], str]:
    torch.set_num_threads(1)
    return [_figure(0), _figure(1)], ""


def _figure(workers: int) -> Figure:
    run = RUN / str(workers)
    shutil.rmtree(run, ignore_errors=True)  # not at the end: a watched run is written until the process ends
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": workers > 0}
    loaders: dict[str, Iterable[Any]] = {
        "bare": DataLoader(Samples(), batch_size=PER_BATCH, **options),
        "watched": stepscope.watch(DataLoader(Samples(), batch_size=PER_BATCH, **options), run, window=None),
    }
    order = random.Random(0)
    for loader in loaders.values():
        _pass(loader)  # workers start, files exist
    added, bare = [], []
    for _ in range(PAIRS):
        seconds = {name: _pass(loaders[name]) for name in order.sample(sorted(loaders), 2)}
        bare.append(seconds["bare"])
        added.append(seconds["watched"] / seconds["bare"] - 1)
    how = (
        f"{PAIRS} pairs of passes over {BATCHES} batches with and without stepscope.watch(window=None), in random order in "
        f"one process, persistent workers, from the first batch to the last; median of the pairs' differences; "
        f"{1000 * median(bare) / (BATCHES - 1):.2f} ms a batch without"
    )
    where = f"{workers} worker" if workers else "no worker"
    return Figure(f"Following batches of 1 ms, {where}", 100 * median(added), "%", "<= 2", how)


def _pass(loader: Iterable[Any]) -> float:
    batches = iter(loader)
    next(batches)
    begun = perf_counter()
    for _ in batches:
        pass
    return perf_counter() - begun
