"""Follows batches from the request of their indices to the loop, as torch's DataLoader iterators tell it.

The iterator is only looked at, after each ``next()``: it stays the object it is, its workers end when it goes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter_ns, process_time_ns, sleep
from typing import Any
from weakref import WeakSet, ref

import pyarrow as pa

from ..ingest.lines import read_lines
from ..ingest.schema import LOADER_BATCHES, LOADER_FETCHES
from ..ingest.writer import write_parquet
from .fetches import FLUSH_S, FetchLog
from .guard import guarded
from .rowfile import RowFile
from .signature import Signature
from .worker import WorkerInit


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
        self.signature = Signature()
        self._session = session
        self._fetches = run / "loader" / f"{session}.fetches"
        self._batches = RowFile(run / "loader" / f"{session}.batches")
        self._delivered: list[str] = []  # rows of batches that are not written yet
        self._sealing = threading.Lock()
        self._loaders = 0
        self._working: WeakSet[Any] = WeakSet()  # iterators with workers
        self._own: FetchLog | None = None  # of the last pass without workers

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
        loader.worker_init_fn = WorkerInit(before, self._fetches, self._new_name(), self.offset)
        return True

    @guarded
    def new_pass(self, loader: Any, iterator: Any, since: int) -> Pass | None:
        """Return what follows a pass over ``loader``, None for an iterable that is not torch's."""
        if self.dead or not hasattr(iterator, "_num_workers") or not is_torchs(loader):
            return None
        if iterator._num_workers == 0 and not hasattr(iterator, "_dataset_fetcher"):
            return None
        before: Pass | None = getattr(iterator, "_stepscope_pass", None)
        if before is not None:  # persistent workers: the same iterator
            passed = Pass(self, before.loader, before.number + 1, iterator, since, before.arrivals)
        else:
            init = getattr(iterator, "_worker_init_fn", None)
            init = init.args[0] if isinstance(init, partial) and init.args else init  # torch wraps it for datapipes
            name = init.loader if isinstance(init, WorkerInit) else self._new_name()
            arrivals = None
            if iterator._num_workers == 0:
                self._flush_own()
                self._own = FetchLog(RowFile(self._fetches), name, None, self.offset)
                self._own.instrument(iterator._dataset_fetcher)
            else:
                arrivals = Arrivals(iterator._worker_result_queue)
                self._working.add(iterator)
            passed = Pass(self, name, 0, iterator, since, arrivals)
        iterator._stepscope_pass = passed
        return passed

    def add(self, row: str) -> None:
        """Note the row of a batch that reached the loop."""
        self._delivered.append(row)

    @guarded
    def flush(self) -> None:
        """Write the rows noted: a system call for each batch would cost quick ones too much."""
        rows, self._delivered = self._delivered, []
        if rows and self._batches.write("\n".join(rows)):
            threading.Thread(target=self._seal, args=(2,), name="stepscope-seal", daemon=True).start()

    def close(self) -> None:
        """Turn the live rows into Parquet."""
        self.flush()
        self._flush_own()
        if self._working:
            sleep(2 * FLUSH_S)  # their workers write what is done
        self._seal(0)
        self.dead = True

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are."""

    def _flush_own(self) -> None:
        if self._own is not None:
            self._own.flush()

    @guarded
    def _seal(self, keep: int) -> None:
        with self._sealing:
            _seal(self._fetches, LOADER_FETCHES, keep)
            _seal(self._batches.stem, LOADER_BATCHES, keep)

    def _new_name(self) -> str:
        self._fetches.parent.mkdir(parents=True, exist_ok=True)
        self._loaders += 1
        return f"{self._session}/{self._loaders}"


class Arrivals:
    """When each message of the workers came and was unpickled, by task, wherever the queue is read.

    That is in the loop's own thread inside ``next()``, or in the thread that pins memory.
    """

    def __init__(self, queue: Any) -> None:
        self.of: dict[int, tuple[int, int]] = {}
        self._begun = 0
        receive, get, this = queue._recv_bytes, type(queue).get, ref(queue)

        def timed_receive() -> Any:
            self._begun = perf_counter_ns()
            return receive()

        def timed_get(*args: Any, **kwargs: Any) -> Any:
            message = get(this(), *args, **kwargs)
            if type(message[0]) is int:
                self.of[message[0]] = self._begun, perf_counter_ns()
            return message

        queue._recv_bytes, queue.get = timed_receive, timed_get


class Pass:
    """One pass over a torch DataLoader."""

    what = "loader lineage"

    def __init__(
        self, lineage: Lineage, loader: str, number: int, iterator: Any, since: int, arrivals: Arrivals | None
    ) -> None:
        self.dead = False
        self.loader, self.number, self.arrivals = loader, number, arrivals
        self._lineage = lineage
        self._iterator = ref(iterator)  # workers end when their iterator goes: nothing here keeps it
        self._asked = since
        self._counters: tuple[int, int | None] = process_time_ns(), None
        self._delivered = 0
        self._sent = 0
        self._outstanding: dict[int, tuple[int, int]] = {}  # task -> worker, requested
        in_order = getattr(iterator, "_in_order", True)
        self._in_order = in_order
        self._head = (
            f'{{"loader":"{loader}","pass":{number},"workers":{iterator._num_workers},'
            f'"prefetch":{getattr(iterator, "_prefetch_factor", None) or "null"},"in_order":{_json(in_order)},'
            f'"persistent":{_json(bool(getattr(iterator, "_persistent_workers", False)))}'
        )
        if arrivals is not None:
            arrivals.of.clear()
            self._look(iterator, since)

    @guarded
    def about_to_ask(self) -> None:
        """Read the counters, before the time at which the loop asks is taken."""
        self._counters = process_time_ns(), self._lineage.signature.runq()

    def ask(self, t: int) -> None:
        """Take note that the loop asks for a batch at ``t``."""
        self._asked = t

    @guarded
    def got(self, t: int, step: int) -> None:
        """Write the row of the batch that has come at ``t`` and is consumed by ``step``."""
        iterator = self._iterator()
        if iterator is None:
            return
        told: dict[str, int | None] = {"task": self._delivered}
        if self.arrivals is not None:
            told["task"] = task = self._look(iterator, t)
            if task is not None:
                offset = self._lineage.offset
                told["worker"], requested = self._outstanding.pop(task)
                told["requested_ns"] = requested + offset
                arrived = self.arrivals.of.pop(task, None)
                if arrived is not None:
                    told["arrived_ns"], told["loaded_ns"] = arrived[0] + offset, arrived[1] + offset
        self._write(t, step, told)
        self._delivered += 1

    @guarded
    def end(self, t: int, step: int) -> None:
        """Write the row of the request that found the loader exhausted, at ``t``."""
        self._write(t, step, {"ended": 1})

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are."""

    def _write(self, t: int, step: int, told: dict[str, int | None]) -> None:
        cpu, runq = self._counters
        offset = self._lineage.offset
        more = "".join(f',"{name}":{value}' for name, value in told.items() if value is not None)
        if runq is not None:
            more = f'{more},"asked_runq_ns":{runq},"got_runq_ns":{self._lineage.signature.runq()}'
        self._lineage.add(
            f'{self._head},"delivered":{self._delivered},"step":{step},"asked_ns":{self._asked + offset},'
            f'"got_ns":{t + offset},"asked_cpu_ns":{cpu},"got_cpu_ns":{process_time_ns()}{more}}}'
        )

    def _look(self, iterator: Any, t: int) -> int | None:
        """Take note of new requests; return the one task that has left the iterator, None when that is not clear."""
        tasks, outstanding = iterator._task_info, self._outstanding
        for task in range(self._sent, iterator._send_idx):
            if task in tasks:
                outstanding[task] = tasks[task][0], t
        self._sent = iterator._send_idx
        gone = [task for task in outstanding if task not in tasks]
        if self._in_order and iterator._rcvd_idx - 1 in gone:
            found = iterator._rcvd_idx - 1
            for task in gone:  # what an iterable dataset's worker answered with its end
                if task != found:
                    del outstanding[task]
            return int(found)
        return gone[0] if len(gone) == 1 else None


def is_torchs(loader: Any) -> bool:
    """Whether a loader is torch's DataLoader or a subclass, told without importing torch."""
    return any(base.__module__ == "torch.utils.data.dataloader" for base in type(loader).__mro__)


def _seal(stem: Path, schema: pa.Schema, keep: int) -> None:
    """Turn the parts of a file into Parquet of the same name, all but the last ``keep``, which are written to."""
    parts = {int(path.name.split(".")[-2]): path for path in stem.parent.glob(f"{stem.name}.*.jsonl")}
    for number in sorted(parts)[: len(parts) - keep]:
        write_parquet(read_lines(parts[number].read_bytes(), schema), parts[number].with_suffix(".parquet"))
        parts[number].unlink()


def _json(value: bool) -> str:
    return "true" if value else "false"
