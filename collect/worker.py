"""Lets a DataLoader's worker record itself: the hook that travels into it, and what it puts in place there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .fetches import FetchLog
from .rowfile import RowFile


class WorkerInit:
    """A ``worker_init_fn``: the user's, then the recording of whatever this worker fetches. Pickled for spawn."""

    def __init__(self, inner: Callable[[int], Any] | None, stem: Path, loader: str, offset_ns: int) -> None:
        self.inner = inner
        self.loader = loader
        self._stem, self._offset = stem, offset_ns

    def __call__(self, worker: int) -> None:
        """Run in a worker, before its fetcher is made."""
        if self.inner is not None:
            self.inner(worker)
        with suppress(Exception):  # a worker that cannot be recorded still loads
            log = FetchLog(RowFile(self._stem), self.loader, worker, self._offset)
            log.keep_flushing()
            _hook_fetchers(log)
            _hook_pickling(log)


def _hook_fetchers(log: FetchLog) -> None:
    from torch.utils.data import _DatasetKind

    make = _DatasetKind.create_fetcher

    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        fetcher = make(*args, **kwargs)
        log.instrument(fetcher)
        return fetcher

    _DatasetKind.create_fetcher = staticmethod(create_fetcher)  # type: ignore[method-assign]


def _hook_pickling(log: FetchLog) -> None:
    """Time the thread that pickles batches: queues look their pickler up in their module for every message."""
    from multiprocessing import queues

    pickler: Any = queues._ForkingPickler  # type: ignore[attr-defined]

    class Timed(pickler):
        @classmethod
        def dumps(cls, message: Any, protocol: int | None = None) -> Any:
            return log.pickled(message, lambda it: pickler.dumps(it, protocol))

    queues._ForkingPickler = Timed  # type: ignore[attr-defined]
