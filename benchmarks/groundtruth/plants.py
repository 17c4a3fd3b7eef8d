"""Datasets and loaders with a planted cause, small enough that its size is known."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

PER_BATCH = 4
FILES, FILE_BYTES = 128, 1 << 20


def burn(seconds: float) -> None:
    """Keep the calling thread on a core, in Python, for so much of its own CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def train(seconds: float) -> None:
    """Multiply matrices for so much of the calling thread's CPU time, as a step does: Python waits meanwhile."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        _MATRIX @ _MATRIX


_MATRIX = torch.ones(192, 192)


@dataclass
class Planted(Dataset):
    """``batches * PER_BATCH`` samples, each costing what is asked for."""

    batches: int = 120
    sleep: float = 0.0  # s a sample
    cpu: float = 0.0  # s of CPU a sample
    slow_every: int = 0  # one index in so many
    slow: float = 0.0  # s that it takes
    slow_worker: float = 0.0  # s a sample that worker 0 takes longer
    pickled: int = 0  # bytes of a sample that is no tensor
    reads: bool = False  # one file a sample
    folder: Path | None = None  # where the files are
    drop_cache: bool = False
    bytes_per_second: float = 0.0  # of the throttled reader, 0 for as fast as it goes

    def __len__(self) -> int:
        return self.batches * PER_BATCH

    def __getitem__(self, index: int) -> Any:
        wait = self.sleep
        if self.slow_every and index % self.slow_every == self.slow_every - 1:
            wait += self.slow
        info = get_worker_info()
        if info is not None and info.id == 0:
            wait += self.slow_worker
        if wait:
            time.sleep(wait)
        if self.cpu:
            burn(self.cpu)
        if self.folder is not None:
            self._read(self.folder / f"{index % FILES}.bin")
        return bytes(self.pickled) if self.pickled else torch.zeros(8)

    def _read(self, path: Path) -> None:
        with path.open("rb") as file:
            if self.drop_cache:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size = len(file.read())
        if self.bytes_per_second:
            time.sleep(size / self.bytes_per_second)


def write_files(folder: Path) -> None:
    """Write ``FILES`` files of ``FILE_BYTES`` through to storage."""
    folder.mkdir()
    for n in range(FILES):
        with (folder / f"{n}.bin").open("wb") as file:
            file.write(os.urandom(FILE_BYTES))
            os.fsync(file.fileno())


def slow_collate(samples: list[Any]) -> Any:
    """Collate, after 12 ms of CPU."""
    burn(0.012)
    return default_collate(samples)


def as_it_is(samples: list[Any]) -> Any:
    """Hand the samples on as a list."""
    return samples


@dataclass(frozen=True)
class Setup:
    """A loader and the work of the loop on each batch; ``ready`` for batches that are there, in a list."""

    dataset: Planted
    workers: int = 2
    work: float = 0.005  # s of CPU a step
    options: dict[str, Any] = field(default_factory=dict)
    ready: bool = False

    def loader(self) -> Any:
        """Return the loader."""
        if self.ready:
            return [torch.zeros(PER_BATCH, 8)] * self.dataset.batches
        return DataLoader(self.dataset, batch_size=PER_BATCH, num_workers=self.workers, **self.options)


@dataclass(frozen=True)
class Case:
    """A planted cause: with it, without it, and the names by which it counts as named; none for a healthy run."""

    name: str
    planted: Setup
    without: Setup
    named: tuple[str, ...] = ()


def _ready(setup: Setup) -> Setup:
    return Setup(setup.dataset, work=setup.work, ready=True)


_QUICK = Setup(Planted(), work=0.01)
_HEALTHY = {
    "healthy: quick samples, no worker": Setup(Planted(), 0, work=0.05),
    "healthy: sleep hidden by prefetch": Setup(Planted(batches=40, sleep=0.01), work=0.2),
    "healthy: CPU hidden by prefetch": Setup(Planted(batches=40, cpu=0.01), 1, work=0.2),
}


CASES = (
    Case(
        "sleep per sample, one worker",
        Setup(Planted(sleep=0.004), 1),
        Setup(Planted(), 1),
        ("too_few_workers",),
    ),
    Case(
        "sleep per sample, no worker",
        Setup(Planted(sleep=0.004), 0),
        Setup(Planted(), 0),
        ("no_workers",),
    ),
    Case(
        "CPU burn per sample, one worker",
        Setup(Planted(cpu=0.004), 1),
        Setup(Planted(), 1),
        ("cpu_bound", "too_few_workers"),
    ),
    Case(
        "CPU burn per sample, no worker",
        Setup(Planted(cpu=0.004), 0),
        Setup(Planted(), 0),
        ("no_workers",),
    ),
    Case(
        "one slow index in 50",
        Setup(Planted(sleep=0.001, slow_every=50, slow=0.2)),
        Setup(Planted(sleep=0.001)),
        ("slow_samples",),
    ),
    Case(
        "stall every 32 batches",
        Setup(Planted(sleep=0.001, slow_every=32 * PER_BATCH, slow=0.4)),
        Setup(Planted(sleep=0.001)),
        ("slow_samples",),
    ),
    Case(
        "one slow worker",
        Setup(Planted(sleep=0.001, slow_worker=0.006), 3),
        Setup(Planted(sleep=0.001), 3),
        ("slow_worker",),
    ),
    Case(
        "heavy collate",
        Setup(Planted(), 1, options={"collate_fn": slow_collate}),
        Setup(Planted(), 1),
        ("collate",),
    ),
    Case(
        "big pickles",
        Setup(Planted(pickled=4 << 20), 2, options={"collate_fn": as_it_is}),
        Setup(Planted(pickled=1), 2, options={"collate_fn": as_it_is}),
        ("handing_over",),
    ),
    Case("workers for samples that cost nothing", _QUICK, _ready(_QUICK), ("handing_over",)),
    Case(
        "throttled reads",
        Setup(Planted(reads=True, bytes_per_second=200e6), 1),
        Setup(Planted(reads=True), 1),
        ("too_few_workers", "blocked"),
    ),
    Case(
        "cold files",
        Setup(Planted(reads=True, drop_cache=True), 1),
        Setup(Planted(reads=True), 1),
        ("storage",),
    ),
    Case(
        "too many workers for the cores",
        Setup(Planted(cpu=0.004), 8),
        Setup(Planted(), 8),
        ("starved_of_cores", "cpu_bound"),
    ),
    *(Case(name, setup, _ready(setup)) for name, setup in _HEALTHY.items()),
)


@dataclass(frozen=True)
class Pair:
    """A recorded setup and a changed one whose step time is foretold from it; ``contended`` ones lack cores."""

    dataset: Planted
    recorded: dict[str, Any]
    changed: dict[str, Any]
    contended: bool = False


_SLEEP, _CPU = Planted(sleep=0.004), Planted(cpu=0.003)
_SLOW = Planted(sleep=0.001, slow_every=50, slow=0.2)

PAIRS = (
    Pair(_SLEEP, {"workers": 0}, {"workers": 2}),
    Pair(_SLEEP, {"workers": 1}, {"workers": 2}),
    Pair(_SLEEP, {"workers": 2}, {"workers": 4}),
    Pair(_SLEEP, {"workers": 4}, {"workers": 1}),
    Pair(Planted(sleep=0.008), {"workers": 2}, {"workers": 8}),
    Pair(_SLOW, {"workers": 2}, {"workers": 4}),
    Pair(_SLOW, {"workers": 2}, {"workers": 2, "prefetch": 8}),
    Pair(_SLOW, {"workers": 2}, {"workers": 2, "in_order": False}),
    Pair(Planted(), {"workers": 2}, {"workers": 0}),
    Pair(_CPU, {"workers": 0}, {"workers": 1}),
    Pair(_CPU, {"workers": 1}, {"workers": 2}, contended=True),
    Pair(_CPU, {"workers": 2}, {"workers": 4}, contended=True),
    Pair(_CPU, {"workers": 4}, {"workers": 1}, contended=True),
)
