"""Memory counters of host and devices: a row a second, and in it what processes hold as often as that may cost.

What a process holds is found by a walk over its page tables, which takes the longer the more it is. The next walk waits
``PATIENCE`` times as long as the last one took: whatever the size of the job, walks take at most 1/``PATIENCE`` of its time.
"""

from __future__ import annotations

import json
import os
import weakref
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from ..ingest.schema import DEVICE_MEMORY, HOST_MEMORY
from ..ingest.writer import table_path
from . import host_memory
from .guard import guarded
from .host import accelerator, torch_if_loaded
from .timerlog import seal

EVERY_NS = 1_000_000_000
PATIENCE = 500  # 0.2 %
# Columns of DEVICE_MEMORY as torch.cuda.memory_stats (its kin for XPU and ROCm) names them.
_STATS = {
    "allocated": "allocated_bytes.all.current",
    "reserved": "reserved_bytes.all.current",
    "active": "active_bytes.all.current",
    "peak_allocated": "allocated_bytes.all.peak",
    "peak_reserved": "reserved_bytes.all.peak",
    "retries": "num_alloc_retries",
    "ooms": "num_ooms",
}


class Counters:
    """Reads the memory of this process, its loaders' workers, its host and its devices.

    Args:
        run: The run directory.
        session: The session's id.
    """

    what = "memory counters"

    def __init__(self, run: Path, session: str) -> None:
        self.dead = False
        self._run, self._session = run, session
        self.due_at = 0  # the next reading, by ``time.perf_counter_ns``
        self._walk_due = 0
        self._loaders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._cgroup: host_memory.Cgroup | None = None
        self._files: dict[Path, Any] = {}

    @guarded
    def loader(self, iterator: Any) -> None:
        """Count the workers of a loader's iterator in, as long as it lives."""
        if hasattr(iterator, "_workers"):
            self._loaders.add(iterator)

    @guarded
    def read(self, rank: int, step: int, t_ns: int) -> None:
        """Write a row of HOST_MEMORY and one of DEVICE_MEMORY for each device in use.

        Args:
            rank: Of this process.
            step: The job's own number of the step about to begin.
            t_ns: Now, ns since the epoch.
        """
        self.due_at = perf_counter_ns() + EVERY_NS
        common = {"rank": rank, "session": self._session, "step": step, "t_ns": t_ns}
        torch = torch_if_loaded()
        self._write("host_memory", HOST_MEMORY, {**common, **self._host(), "pinned": pinned(torch)})
        for row in devices(torch):
            self._write("device_memory", DEVICE_MEMORY, {**common, **row})

    @guarded
    def close(self) -> None:
        """Turn the rows into Parquet."""
        self.dead = True
        for path, schema in self._files.items():
            if path.exists():
                seal(path, schema)

    def let_go(self) -> None:
        """After a failure: rows written so far stay as they are, and no more are read."""
        self.due_at = 1 << 63

    def _host(self) -> host_memory.Reading:
        if self._cgroup is None:
            self._cgroup = host_memory.Cgroup()
        host = {**host_memory.shared(), **self._cgroup.read(), **host_memory.machine()}
        began = perf_counter_ns()
        if began >= self._walk_due:
            pids = [worker.pid for iterator in list(self._loaders) for worker in iterator._workers]
            host |= {**host_memory.process(), **host_memory.workers(pids)}
            now = perf_counter_ns()
            self._walk_due = now + PATIENCE * (now - began)
        return host

    def _write(self, table: str, schema: Any, row: dict[str, Any]) -> None:
        path = table_path(self._run, table, row["rank"], self._session).with_suffix(".jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)  # each time: the run may be deleted under way
        self._files[path] = schema
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)  # not held: somebody may close what is
        try:
            os.write(file, json.dumps(row, separators=(",", ":")).encode() + b"\n")
        finally:
            os.close(file)


def pinned(torch: Any) -> int | None:
    """Return the bytes of page-locked memory that torch's allocator for the host holds, None without CUDA in use."""
    if torch is None or not torch.cuda.is_initialized() or not hasattr(torch.cuda, "host_memory_stats"):
        return None
    return torch.cuda.host_memory_stats().get("allocated_bytes.current")


def devices(torch: Any) -> list[dict[str, Any]]:
    """Return the columns of DEVICE_MEMORY for each device that this process has memory on."""
    if torch is None:
        return []
    if torch.backends.mps.is_available():
        mps = torch.mps
        held = {"allocated": mps.current_allocated_memory(), "reserved": mps.driver_allocated_memory()}
        return [{"device": "mps:0", **held, "total": mps.recommended_max_memory()}]
    module = accelerator(torch)
    rows = []
    for index in range(module.device_count() if module is not None else 0):
        stats = module.memory_stats(index)
        if not stats.get(_STATS["reserved"]):
            continue  # asking further would make a context on a device that the job does not use
        free, total = module.mem_get_info(index) if hasattr(module, "mem_get_info") else (None, None)
        name = f"{module.__name__.rpartition('.')[2]}:{index}"
        rows.append({"device": name, **{k: stats.get(v) for k, v in _STATS.items()}, "free": free, "total": total})
    return rows
