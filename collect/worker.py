"""Times what a DataLoader's fetcher does for each batch, where it does it: in the worker, or in the loop's process.

Nothing the user made is changed: the fetcher, torch's own and one a worker, gets a timed dataset and collate. A row a
batch is appended to one file a session by one ``write``, so that a kill loses no finished batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns, thread_time_ns
from typing import Any
from weakref import ref

from .guard import guarded

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # not on every system: what it tells is unknown there
    getrusage = None  # type: ignore[assignment]


class Signature:
    """What the calling thread (its process, for reads) has used so far; None where the system does not tell."""

    NAMES = ("cpu_ns", "runq_ns", "read_chars", "read_bytes", "major_faults", "voluntary", "involuntary")

    def __init__(self) -> None:
        self._io = _opened("/proc/self/io")
        self._schedule = _opened("/proc/thread-self/schedstat")

    def read(self) -> tuple[int | None, ...]:
        """Return the counters, in the order of ``NAMES``."""
        chars = stored = faults = voluntary = involuntary = None
        if self._io is not None:
            fields = dict(line.split(b": ") for line in os.pread(self._io, 512, 0).splitlines())
            chars, stored = int(fields[b"rchar"]), int(fields[b"read_bytes"])
        if getrusage is not None:
            used = getrusage(RUSAGE_THREAD)
            faults, voluntary, involuntary = used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw
        return thread_time_ns(), self.runq(), chars, stored, faults, voluntary, involuntary

    def runq(self) -> int | None:
        """Return for how many ns the thread was ready to run and had no core."""
        return None if self._schedule is None else int(os.pread(self._schedule, 128, 0).split()[1])


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def append(fd: int, row: dict[str, Any]) -> None:
    """Append one row as a line of JSON, whole or not at all; several processes may append to one file."""
    line = (json.dumps(row, separators=(",", ":")) + "\n").encode()
    if os.write(fd, line) != len(line):
        raise OSError("the loader's file takes no more rows (is the disk full?)")


class FetchLog:
    """The rows of one fetching process.

    Args:
        path: The session's file of fetches.
        loader: Names the set of workers.
        worker: The worker's number, None in the loop's own process.
        offset_ns: What makes of ``perf_counter_ns`` the epoch's time; that counter is one for all processes.
    """

    what = "worker-side recording"

    def __init__(self, path: Path, loader: str, worker: int | None, offset_ns: int) -> None:
        self.dead = False
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._who = {"loader": loader, "worker": worker}
        self._offset = offset_ns
        self._signature = Signature()
        self._pass = -1
        self._collate: int | None = None
        self._samples: int | None = None
        self._slowest: tuple[int | None, Any] = (None, None)

    @guarded
    def instrument(self, fetcher: Any) -> None:
        """Record what ``fetcher``, new for each pass over the loader, does from here on."""
        self._pass += 1
        self._ordinal = 0
        if hasattr(fetcher, "dataset_iter"):
            # An iterator with a state of its own is asked for it by type: it stays what it is, its samples untimed.
            if not hasattr(fetcher.dataset_iter, "state_dict"):
                fetcher.dataset_iter = _TimedIterator(fetcher.dataset_iter, self)
        else:
            fetcher.dataset = _TimedDataset(fetcher.dataset, self)
        collate, fetch, this = fetcher.collate_fn, type(fetcher).fetch, ref(fetcher)  # no cycle: datasets go on time

        def timed_collate(samples: Any) -> Any:
            since = perf_counter_ns()
            try:
                return collate(samples)
            finally:
                self._collate = perf_counter_ns() - since

        def timed_fetch(index: Any) -> Any:
            self.begin()
            try:
                return fetch(this(), index)
            finally:
                self.end(index)

        fetcher.collate_fn, fetcher.fetch = timed_collate, timed_fetch

    @guarded
    def begin(self) -> None:
        """Take note that a batch is begun."""
        self._collate, self._samples, self._slowest = None, None, (None, None)
        self._used = self._signature.read()
        self._since = perf_counter_ns()

    def sample(self, index: Any, ns: int) -> None:
        """Take note that a sample took ``ns``."""
        self._samples = (self._samples or 0) + 1
        if self._slowest[0] is None or ns > self._slowest[0]:
            self._slowest = ns, index

    @guarded
    def end(self, index: Any) -> None:
        """Write the row of the batch that was begun; one that raised has its row too, so that rows stay counted."""
        until = perf_counter_ns()
        used = self._signature.read()
        slowest_ns, slowest = self._slowest
        row = {
            **self._who,
            "pass": self._pass,
            "ordinal": self._ordinal,
            "fetch_start_ns": self._since + self._offset,
            "fetch_end_ns": until + self._offset,
            "samples": self._samples,
            "slowest_ns": slowest_ns,
            "slowest": None if slowest is None else str(slowest)[:200],
            "collate_ns": self._collate,
        }
        pairs = zip(Signature.NAMES, used, self._used, strict=True)
        row.update({name: None if b is None or a is None else b - a for name, b, a in pairs})
        append(self._fd, row)
        self._ordinal += 1

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are."""


class _TimedDataset:
    """A dataset as the fetcher sees it: ``__getitem__`` timed, everything else the dataset's own."""

    def __init__(self, dataset: Any, log: FetchLog) -> None:
        self._dataset = dataset
        self._log = log

    def __getitem__(self, index: Any) -> Any:
        since = perf_counter_ns()
        sample = self._dataset[index]
        self._log.sample(index, perf_counter_ns() - since)
        return sample

    def __len__(self) -> int:
        return len(self._dataset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


class _TimedIterator:
    """An iterable dataset's iterator as the fetcher sees it; a sample has no index but its order."""

    def __init__(self, samples: Iterator[Any], log: FetchLog) -> None:
        self._iterator = samples
        self._log = log

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        since = perf_counter_ns()
        sample = next(self._iterator)
        self._log.sample(None, perf_counter_ns() - since)
        return sample

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


class WorkerInit:
    """A ``worker_init_fn``: the user's, then the recording of whatever this worker fetches. Pickled for spawn."""

    def __init__(self, inner: Callable[[int], Any] | None, path: Path, loader: str, offset_ns: int) -> None:
        self.inner = inner
        self.loader = loader
        self._path, self._offset = path, offset_ns

    def __call__(self, worker: int) -> None:
        """Run in a worker, before its fetcher is made."""
        if self.inner is not None:
            self.inner(worker)
        with suppress(Exception):  # a worker that cannot be recorded still loads
            self._hook(worker)

    def _hook(self, worker: int) -> None:
        from torch.utils.data import _DatasetKind

        log = FetchLog(self._path, self.loader, worker, self._offset)
        make = _DatasetKind.create_fetcher

        def create_fetcher(*args: Any, **kwargs: Any) -> Any:
            fetcher = make(*args, **kwargs)
            log.instrument(fetcher)
            return fetcher

        _DatasetKind.create_fetcher = staticmethod(create_fetcher)  # type: ignore[method-assign]
