"""Times what a DataLoader's fetcher does for each batch, in the worker or, without workers, in the loop's process.

Nothing that the user made is changed: the fetcher, torch's own and one a worker, gets a timed dataset and collate.
A worker's rows are written by a thread of their own: what makes the one that pickles wait for the interpreter would
delay the batch.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing import util
from time import perf_counter_ns, sleep, thread_time_ns
from typing import Any
from weakref import ref

from .guard import guarded
from .rowfile import RowFile
from .signature import Signature, quietly, since

LONGEST = 300  # characters of an index or a path that are kept
FLUSH_S = 0.05  # how long rows wait to be written; a kill may lose those of that time
Row = dict[str, Any]


class FetchLog:
    """The rows of one fetching process.

    Args:
        file: The session's file of fetches.
        loader: Names the set of workers.
        worker: The worker's number, None in the loop's own process.
        offset_ns: What makes of ``perf_counter_ns`` the epoch's time; that counter is one for all processes.
    """

    what = "worker-side recording"

    def __init__(self, file: RowFile, loader: str, worker: int | None, offset_ns: int) -> None:
        self.dead = False
        self._file = file
        self._head = f'{{"loader":"{loader}"' + ("" if worker is None else f',"worker":{worker}')
        self._alone = worker is None
        self._offset = offset_ns
        self._signature = Signature()
        self._pass = -1
        self._unsent: deque[tuple[int, Row]] = deque()  # identity of the batch, its row
        self._complete: deque[Row] = deque()
        self._flushed = 0
        self._collate: int | None = None
        self._samples = 0
        self._slowest: tuple[int | None, Any] = None, None

    @guarded
    def instrument(self, fetcher: Any) -> None:
        """Record what ``fetcher``, new for each pass over the loader, does from here on."""
        self._pass += 1
        self._task = 0
        self._dataset = fetcher.dataset
        if hasattr(fetcher, "dataset_iter"):
            # An iterator with a state of its own is asked for it by type: it stays what it is, its samples untimed.
            if not hasattr(fetcher.dataset_iter, "state_dict"):
                fetcher.dataset_iter = _TimedIterator(fetcher.dataset_iter, self)
        else:
            fetcher.dataset = _TimedDataset(fetcher.dataset, self)
        collate, fetch, this = fetcher.collate_fn, type(fetcher).fetch, ref(fetcher)  # no cycle: datasets go on time

        def timed_collate(samples: Any) -> Any:
            begun = perf_counter_ns()
            batch = collate(samples)
            self._collate = perf_counter_ns() - begun
            return batch

        def timed_fetch(index: Any) -> Any:
            self.begin()
            batch = fetch(this(), index)
            self.end(batch)
            return batch

        fetcher.collate_fn, fetcher.fetch = timed_collate, timed_fetch

    @guarded
    def begin(self) -> None:
        """Take note that a batch is begun."""
        if self._alone and perf_counter_ns() - self._flushed > FLUSH_S * 1e9:
            self._flushed = perf_counter_ns()
            self.flush()
        self._collate, self._samples, self._slowest = None, 0, (None, None)
        self._used = self._signature.read()
        self._since = perf_counter_ns()

    def sample(self, index: Any, ns: int) -> None:
        """Take note that a sample took ``ns``."""
        self._samples += 1
        slowest = self._slowest[0]
        if slowest is None or ns > slowest:
            self._slowest = ns, index

    @guarded
    def end(self, batch: Any) -> None:
        """Take note that ``batch`` is there: its row is written once it is pickled, at once where it never is."""
        until = perf_counter_ns()
        row: Row = {
            "pass": self._pass,
            "fetch_start_ns": self._since + self._offset,
            "fetch_end_ns": until + self._offset,
            **since(self._used, self._signature.read()),
        }
        slowest, index = self._slowest
        if slowest is not None:
            row.update(samples=self._samples, slowest_ns=slowest)
            if index is not None:
                row["slowest"] = str(index)[:LONGEST]
                path = quietly(lambda: path_of(self._dataset, index))
                if path is not None:
                    row["slowest_path"] = path[:LONGEST]
        if self._collate is not None:
            row["collate_ns"] = self._collate
        if self._alone:
            self._complete.append({"task": self._task, **row})
            self._task += 1
        else:
            self._unsent.append((id(batch), row))

    def pickled(self, message: Any, pickler: Any) -> Any:
        """Return what ``pickler`` makes of a message; that of a fetched batch, ``(task, batch)``, completes its row."""
        begun, cpu = perf_counter_ns(), thread_time_ns()
        buffer = pickler(message)
        if not self.dead and self._unsent and type(message) is tuple and len(message) == 2:
            self._sent(*message, begun, cpu, len(buffer))
        return buffer

    @guarded
    def _sent(self, task: Any, batch: Any, begun: int, cpu: int, size: int) -> None:
        if id(batch) not in [known for known, _ in list(self._unsent)]:  # somebody else's message
            return
        known = None
        while known != id(batch):  # those before it could not be pickled
            known, row = self._unsent.popleft()
        until = perf_counter_ns()
        self._complete.append(
            {
                "task": task,
                **row,
                "pickle_ns": until - begun,
                "pickle_cpu_ns": thread_time_ns() - cpu,
                "sent_ns": until + self._offset,
                "bytes": size,
            }
        )

    def keep_flushing(self) -> None:
        """Write complete rows from now on, in a thread, and the last ones when the process ends."""

        def run() -> None:
            while not self.dead:
                sleep(FLUSH_S)
                self.flush()

        util.Finalize(None, self.flush, exitpriority=10)
        threading.Thread(target=run, name="stepscope-fetches", daemon=True).start()

    @guarded
    def flush(self) -> None:
        """Write the rows that are complete."""
        lines = []
        while self._complete:
            row = self._complete.popleft()
            told = [f'"{name}":{value if type(value) is int else json.dumps(value)}' for name, value in row.items()]
            lines.append(f"{self._head},{','.join(told)}}}")
        if lines:
            self._file.write("\n".join(lines))

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are."""


def path_of(dataset: Any, index: Any) -> str | None:
    """Return the file of a sample where the dataset keeps a list of them, as torchvision's do; None where it does not."""
    while hasattr(dataset, "indices") and hasattr(dataset, "dataset"):  # torch's Subset
        dataset, index = dataset.dataset, dataset.indices[index]
    for name in ("samples", "imgs", "paths", "files", "filenames"):
        listed = getattr(dataset, name, None)
        if isinstance(listed, (list, tuple)) and isinstance(index, int):
            one = listed[index]
            one = one[0] if isinstance(one, tuple) else one
            return os.fspath(one) if isinstance(one, (str, os.PathLike)) else None
    return None


class _TimedDataset:
    """A dataset as the fetcher sees it: ``__getitem__`` timed, everything else the dataset's own."""

    def __init__(self, dataset: Any, log: FetchLog) -> None:
        self._dataset = dataset
        self._log = log
        self._one_by_one = _one_by_one(dataset)

    def __getitem__(self, index: Any) -> Any:
        begun = perf_counter_ns()
        sample = self._dataset[index]
        self._log.sample(index, perf_counter_ns() - begun)
        return sample

    def __len__(self) -> int:
        return len(self._dataset)

    def __getattr__(self, name: str) -> Any:
        if name == "__getitems__" and self._one_by_one:
            raise AttributeError(name)
        return getattr(self._dataset, name)


def _one_by_one(dataset: Any) -> bool:
    """Whether a dataset is torch's Subset, whose ``__getitems__`` only asks for one sample after the other."""
    subset = False
    while (type(dataset).__module__, type(dataset).__name__) == ("torch.utils.data.dataset", "Subset"):
        dataset, subset = dataset.dataset, True
    return subset and not hasattr(dataset, "__getitems__")


class _TimedIterator:
    """An iterable dataset's iterator as the fetcher sees it; a sample has no index but its order."""

    def __init__(self, samples: Iterator[Any], log: FetchLog) -> None:
        self._iterator = samples
        self._log = log

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        begun = perf_counter_ns()
        sample = next(self._iterator)
        self._log.sample(None, perf_counter_ns() - begun)
        return sample

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)
