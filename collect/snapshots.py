"""Snapshots of the allocator's history: on a schedule, and when an allocation fails.

The history (torch's own, with stacks) is recorded from the first step after the job began to use an accelerator. A
snapshot is a pickle in ``RUN/snapshots``, which the next ``stepscope ingest``, ``analyze`` or ``report`` of the run reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..ingest.writer import rank_dir, replacing
from .guard import guarded
from .host import accelerator, torch_if_loaded
from .windows import Window

ENTRIES = 100_000  # events of the history that torch keeps: some 100 MB
MOST_OOMS = 3  # a job that catches them and tries again may have many


class Snapshots:
    """Takes the snapshots of one session.

    Args:
        run: The run directory.
        wanted: Whether at all; a window tells at which steps, besides when an allocation fails.
        origin: Tells rank, session and step for the file's name.
    """

    what = "memory snapshots"

    def __init__(self, run: Path, wanted: Window | bool, origin: Callable[[], tuple[int, str, int]]) -> None:
        self.dead = not wanted
        self._run, self._origin = run, origin
        self._schedule = wanted if isinstance(wanted, Window) else None
        self._module: Any = None  # torch.cuda or torch.xpu, once history is recorded
        self._ours = False
        self._ooms = 0

    @guarded
    def step(self, step: int) -> bool:
        """See to a step about to begin, by its number in the session. Returns whether that took time."""
        if self._module is None:
            self._begin()
        if self._module is None or self._schedule is None or self._schedule.next_due(step) != step:
            return False
        self._take("")
        return True

    @guarded
    def raised(self, error: BaseException | None) -> None:
        """Take note that ``error`` leaves the job's code. If memory ran out, and nobody saw it yet, take a snapshot."""
        torch = torch_if_loaded()
        if self._module is not None and torch and isinstance(error, torch.OutOfMemoryError) and not self._ooms:
            self._out_of_memory()

    def close(self) -> None:
        """Record no more."""
        self.dead = True
        self.let_go()

    def let_go(self) -> None:
        """Stop the history, if it was begun here."""
        if self._ours:
            self._ours = False
            self._module.memory._record_memory_history(enabled=None)

    def _begin(self) -> None:
        torch = torch_if_loaded()
        module = accelerator(torch) if torch is not None else None
        if module is None:
            return
        self._module = module
        enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
        if not (enabled and enabled()):  # else the job records it itself, the way it wants it
            module.memory._record_memory_history(max_entries=ENTRIES)
            self._ours = True
        attach = getattr(torch._C, "_cuda_attachOutOfMemoryObserver", None)
        if attach is not None:
            attach(lambda *_: self._failed())  # before the exception is raised: the pools are as it found them

    @guarded
    def _failed(self) -> None:
        if self._ooms < MOST_OOMS:
            self._out_of_memory()

    def _out_of_memory(self) -> None:
        self._ooms += 1
        self._take(f"-oom{self._ooms}")

    def _take(self, why: str) -> None:
        rank, session, step = self._origin()
        path = self._run / "snapshots" / rank_dir(rank) / f"rank{rank}-{session}-{step}{why}.pickle"
        with replacing(path) as temporary:
            self._module.memory._dump_snapshot(os.fspath(temporary))
