"""What a thread has used of the machine so far: CPU, waiting for a core, reads, faults, switches."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from time import thread_time_ns
from typing import Any

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # not on every system: what it tells is unknown there
    getrusage = None  # type: ignore[assignment]

NAMES = ("cpu_ns", "runq_ns", "read_chars", "read_bytes", "major_faults", "voluntary", "involuntary")
Counters = tuple[int | None, ...]


class Signature:
    """Reads the counters of the thread that makes it, and for reads of its process; None where none are told."""

    def __init__(self) -> None:
        self._io = _opened("/proc/self/io")
        self._schedule = _opened("/proc/thread-self/schedstat")

    def read(self) -> Counters:
        """Return the counters so far, in the order of ``NAMES``."""
        chars = stored = faults = voluntary = involuntary = None
        if self._io is not None:
            # rchar, wchar, syscr, syscw, read_bytes, ...: a name, a colon, a number each
            fields = os.pread(self._io, 512, 0).split()
            chars, stored = int(fields[1]), int(fields[9])
        if getrusage is not None:
            used = getrusage(RUSAGE_THREAD)
            faults, voluntary, involuntary = used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw
        return thread_time_ns(), self.runq(), chars, stored, faults, voluntary, involuntary

    def runq(self) -> int | None:
        """Return for how many ns the thread was ready to run and had no core."""
        return None if self._schedule is None else int(os.pread(self._schedule, 128, 0).split()[1])


def since(before: Counters, now: Counters) -> dict[str, int]:
    """Return by name what was used between two readings; what is not told is left out."""
    return {name: b - a for name, a, b in zip(NAMES, before, now, strict=True) if a is not None and b is not None}


def _opened(path: str) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return None


def quietly(ask: Callable[[], Any]) -> Any:
    """Return what ``ask`` returns, None when it raises: it asks objects that are somebody else's."""
    try:
        return ask()
    except Exception:
        return None
