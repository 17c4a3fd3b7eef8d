"""Datasets and loaders with a planted cause, small enough that its size is known."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

PER_BATCH = 4
BATCHES = 120
FILE_BYTES = 1 << 20


def burn(seconds: float) -> None:
    """Keep the calling thread on a core for so much of its own CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@dataclass
class Planted(Dataset):
    """``BATCHES * PER_BATCH`` samples, each costing what is asked for."""

    sleep: float = 0.0  # s a sample
    cpu: float = 0.0  # s of CPU a sample
    slow_every: int = 0  # one index in so many
    slow: float = 0.0  # s that it takes
    slow_worker: float = 0.0  # s a sample that worker 0 takes longer
    objects: int = 0  # Python numbers in a sample, to be pickled
    files: Path | None = None
    drop_cache: bool = False
    bytes_per_second: float = 0.0  # of the throttled reader, 0 for as fast as it goes

    def __len__(self) -> int:
        return BATCHES * PER_BATCH

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
        if self.files is not None:
            self._read(self.files / f"{index % 128}.bin")
        return list(range(self.objects)) if self.objects else torch.zeros(8)

    def _read(self, path: Path) -> None:
        with path.open("rb") as file:
            if self.drop_cache:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size = len(file.read())
        if self.bytes_per_second:
            time.sleep(size / self.bytes_per_second)


def files() -> Path:
    """Return a new folder of 128 files of ``FILE_BYTES`` that storage has."""
    folder = Path(tempfile.mkdtemp(prefix="stepscope-groundtruth-"))
    for n in range(128):
        with (folder / f"{n}.bin").open("wb") as file:
            file.write(os.urandom(FILE_BYTES))
            os.fsync(file.fileno())
    return folder


def slow_collate(samples: list[Any]) -> Any:
    """Collate, after 12 ms of CPU."""
    burn(0.012)
    return default_collate(samples)


def as_it_is(samples: list[Any]) -> Any:
    """Hand the samples on as a list."""
    return samples


@dataclass(frozen=True)
class Setup:
    """A loader and the work of the loop on each batch."""

    dataset: Planted
    workers: int = 2
    work: float = 0.005  # s of CPU a step
    options: dict[str, Any] = field(default_factory=dict)

    def loader(self) -> DataLoader[Any]:
        """Return the loader."""
        return DataLoader(self.dataset, batch_size=PER_BATCH, num_workers=self.workers, **self.options)


@dataclass(frozen=True)
class Case:
    """A planted cause: with it, without it, and the names by which it counts as named; none for a healthy run."""

    name: str
    planted: Callable[[], Setup]
    healthy: Callable[[], Setup] | None
    named: tuple[str, ...] = ()


def _cached() -> Setup:
    return Setup(Planted(files=files()), work=0.01)


CASES = (
    Case(
        "sleep per sample, one worker",
        lambda: Setup(Planted(sleep=0.004), 1),
        lambda: Setup(Planted(), 1),
        ("too_few_workers",),
    ),
    Case(
        "sleep per sample, no worker",
        lambda: Setup(Planted(sleep=0.004), 0),
        lambda: Setup(Planted(), 0),
        ("no_workers",),
    ),
    Case(
        "CPU burn per sample, one worker",
        lambda: Setup(Planted(cpu=0.004), 1),
        lambda: Setup(Planted(), 1),
        ("cpu_bound", "too_few_workers"),
    ),
    Case(
        "CPU burn per sample, no worker",
        lambda: Setup(Planted(cpu=0.004), 0),
        lambda: Setup(Planted(), 0),
        ("no_workers",),
    ),
    Case(
        "one slow index in 50",
        lambda: Setup(Planted(sleep=0.001, slow_every=50, slow=0.2)),
        lambda: Setup(Planted(sleep=0.001)),
        ("slow_samples",),
    ),
    Case(
        "stall every 32 batches",
        lambda: Setup(Planted(sleep=0.001, slow_every=32 * PER_BATCH, slow=0.4)),
        lambda: Setup(Planted(sleep=0.001)),
        ("slow_samples",),
    ),
    Case(
        "one slow worker",
        lambda: Setup(Planted(sleep=0.001, slow_worker=0.006), 3),
        lambda: Setup(Planted(sleep=0.001), 3),
        ("slow_worker",),
    ),
    Case(
        "heavy collate",
        lambda: Setup(Planted(), 1, options={"collate_fn": slow_collate}),
        lambda: Setup(Planted(), 1),
        ("collate",),
    ),
    Case(
        "big pickles",
        lambda: Setup(Planted(objects=200_000), 2, options={"collate_fn": as_it_is}),
        lambda: Setup(Planted(), 2, options={"collate_fn": as_it_is}),
        ("handing_over",),
    ),
    Case(
        "throttled reads",
        lambda: Setup(Planted(files=files(), bytes_per_second=200e6), 1),
        lambda: Setup(Planted(files=files()), 1),
        ("too_few_workers", "blocked"),
    ),
    Case(
        "cold files",
        lambda: Setup(Planted(files=files(), drop_cache=True), 1),
        lambda: Setup(Planted(files=files()), 1),
        ("storage",),
    ),
    Case(
        "too many workers for the cores",
        lambda: Setup(Planted(cpu=0.004), 8),
        lambda: Setup(Planted(), 8),
        ("starved_of_cores", "cpu_bound"),
    ),
    Case("healthy: quick samples", lambda: Setup(Planted(), work=0.01), None),
    Case("healthy: sleep hidden by prefetch", lambda: Setup(Planted(sleep=0.001), work=0.01), None),
    Case("healthy: cached files", _cached, None),
)


@dataclass(frozen=True)
class Pair:
    """A recorded setup and a changed one whose step time is foretold from it; ``contended`` ones lack cores."""

    dataset: Planted
    recorded: dict[str, Any]
    changed: dict[str, Any]
    work: float = 0.005
    contended: bool = False


PAIRS = (
    Pair(Planted(sleep=0.004), {"workers": 0}, {"workers": 2}),
    Pair(Planted(sleep=0.004), {"workers": 1}, {"workers": 2}),
    Pair(Planted(sleep=0.004), {"workers": 2}, {"workers": 4}),
    Pair(Planted(sleep=0.004), {"workers": 4}, {"workers": 1}),
    Pair(Planted(sleep=0.008), {"workers": 2}, {"workers": 8}),
    Pair(Planted(sleep=0.001, slow_every=50, slow=0.2), {"workers": 2}, {"workers": 4}),
    Pair(Planted(sleep=0.001, slow_every=50, slow=0.2), {"workers": 2}, {"workers": 2, "prefetch": 8}),
    Pair(Planted(sleep=0.001, slow_every=50, slow=0.2), {"workers": 2}, {"workers": 2, "in_order": False}),
    Pair(Planted(cpu=0.003), {"workers": 0}, {"workers": 1}),
    Pair(Planted(cpu=0.003), {"workers": 1}, {"workers": 2}, contended=True),
    Pair(Planted(cpu=0.003), {"workers": 2}, {"workers": 4}, contended=True),
)
