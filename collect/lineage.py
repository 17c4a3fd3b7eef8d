"""Follows batches from the request of their indices to the loop, as torch's DataLoader iterators tell it.

The iterator is only looked at, after each ``next()``: it stays the object it is, its workers end when it goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import process_time_ns
from typing import Any
from weakref import ref

from .guard import guarded
from .worker import FetchLog, Signature, WorkerInit, append


class Lineage:
    """The loader rows of one session.

    Args:
        run: The run directory.
        session: The session's id.
        offset_ns: What makes of ``perf_counter_ns`` the epoch's time.
    """

    what = "loader lineage"

    def __init__(self, run: Path, session: str, offset_ns: int) -> None:
        self.dead = False
        self.offset = offset_ns
        self._session = session
        self._fetches = run / "loader" / f"{session}.fetches.jsonl"
        self._deliveries = self._fetches.with_name(f"{session}.batches.jsonl")
        self._fd: int | None = None
        self._loaders = 0
        self.signature = Signature()

    @contextmanager
    def workers_of(self, loader: Any) -> Iterator[None]:
        """Let the workers started inside the block record themselves, if ``loader`` is torch's."""
        before = getattr(loader, "worker_init_fn", None)
        hooked = self._hook(loader, before)
        try:
            yield
        finally:
            if hooked:
                loader.worker_init_fn = before

    @guarded
    def _hook(self, loader: Any, before: Any) -> bool:
        if self.dead or not is_torchs(loader) or not loader.num_workers:
            return False
        self._prepare()
        self._loaders += 1
        loader.worker_init_fn = WorkerInit(before, self._fetches, self._name(), self.offset)
        return True

    @guarded
    def new_pass(self, loader: Any, iterator: Any, since: int) -> Pass | None:
        """Return what follows a pass over ``loader``, None for an iterable that is not torch's."""
        if self.dead or not hasattr(iterator, "_num_workers") or not is_torchs(loader):
            return None
        self._prepare()
        if iterator._num_workers == 0 and not hasattr(iterator, "_dataset_fetcher"):
            return None
        before: Pass | None = getattr(iterator, "_stepscope_pass", None)  # persistent workers: the same iterator
        if before is not None:
            passed = Pass(self, before.loader, before.number + 1, iterator, since)
        else:
            init = getattr(iterator, "_worker_init_fn", None)
            init = init.args[0] if isinstance(init, partial) and init.args else init  # torch wraps it for datapipes
            if isinstance(init, WorkerInit):
                name = init.loader
            else:  # no workers, or workers that do not record themselves
                self._loaders += 1
                name = self._name()
            if iterator._num_workers == 0:
                FetchLog(self._fetches, name, None, self.offset).instrument(iterator._dataset_fetcher)
            passed = Pass(self, name, 0, iterator, since)
        iterator._stepscope_pass = passed
        return passed

    def write(self, row: dict[str, Any]) -> None:
        """Append the row of a batch that reached the loop."""
        if self._fd is None:
            self._fd = os.open(self._deliveries, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        append(self._fd, row)

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are."""

    def _name(self) -> str:
        return f"{self._session}/{self._loaders}"

    def _prepare(self) -> None:
        self._fetches.parent.mkdir(parents=True, exist_ok=True)


class Pass:
    """One pass over a torch DataLoader."""

    what = "loader lineage"

    def __init__(self, lineage: Lineage, loader: str, number: int, iterator: Any, since: int) -> None:
        self.dead = False
        self.loader, self.number = loader, number
        self._lineage = lineage
        self._iterator = ref(iterator)  # workers end when their iterator goes: nothing here keeps it
        self._asked = (since, process_time_ns(), None)
        self._delivered = 0
        self._sent = 0
        self._outstanding: dict[int, tuple[int, int, int]] = {}  # task -> worker, ordinal of it, requested
        self._ordinals: dict[int, int] = {}
        self._look(iterator, since)

    @guarded
    def ask(self, t: int) -> None:
        """Take note that the loop asks for a batch at ``t``."""
        self._asked = t, process_time_ns(), self._lineage.signature.runq()  # type: ignore[assignment]

    @guarded
    def got(self, t: int, step: int) -> None:
        """Write the row of the batch that has come at ``t`` and is consumed by ``step``."""
        iterator = self._iterator()
        if iterator is None:
            return
        worker = requested = task = None
        ordinal: int | None = self._delivered
        if iterator._num_workers:
            task = self._look(iterator, t)
            worker, ordinal, requested = (None, None, None) if task is None else self._outstanding.pop(task)
        asked, cpu, runq = self._asked
        offset = self._lineage.offset
        self._lineage.write(
            {
                "loader": self.loader,
                "pass": self.number,
                "delivered": self._delivered,
                "workers": iterator._num_workers,
                "prefetch": getattr(iterator, "_prefetch_factor", None),
                "in_order": getattr(iterator, "_in_order", True),
                "worker": worker,
                "ordinal": ordinal,
                "requested_ns": None if requested is None else requested + offset,
                "asked_ns": asked + offset,
                "got_ns": t + offset,
                "step": step,
                "asked_cpu_ns": cpu,
                "asked_runq_ns": runq,
                "got_cpu_ns": process_time_ns(),
                "got_runq_ns": self._lineage.signature.runq(),
            }
        )
        self._delivered += 1

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are."""

    def _look(self, iterator: Any, t: int) -> int | None:
        """Take note of new requests; return the one task that has left the iterator, None when that is not clear."""
        if not iterator._num_workers:
            return None
        tasks = iterator._task_info
        for task in range(self._sent, iterator._send_idx):
            if task in tasks:
                worker = tasks[task][0]
                ordinal = self._ordinals.get(worker, 0)
                self._ordinals[worker] = ordinal + 1
                self._outstanding[task] = worker, ordinal, t
            else:
                self.dead = True  # a request went unseen: from here on the count of its worker would be off
                return None
        self._sent = iterator._send_idx
        gone = [task for task in self._outstanding if task not in tasks]
        if getattr(iterator, "_in_order", True) and iterator._rcvd_idx - 1 in gone:
            found = iterator._rcvd_idx - 1
            for task in gone:  # what an iterable dataset's worker answered with its end
                if task != found:
                    del self._outstanding[task]
            return found
        return gone[0] if len(gone) == 1 else None


def is_torchs(loader: Any) -> bool:
    """Whether a loader is torch's DataLoader or a subclass, told without importing torch."""
    return any(base.__module__ == "torch.utils.data.dataloader" for base in type(loader).__mro__)
