"""What memory the host has left for this job: processes, shared memory, the container's limit. Read from /proc and /sys.

Whatever this system does not tell is None.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

SHARED = "/dev/shm"
CGROUPS = Path("/sys/fs/cgroup")
_KIB = 1024
_PROCESS = {b"Rss:": "rss", b"Pss:": "pss", b"Swap:": "swap"}
_MACHINE = {b"MemAvailable:": "available", b"MemTotal:": "total"}

Reading = dict[str, int | None]


def process(pid: int | str = "self") -> Reading:
    """Return ``rss``, ``pss`` (shared pages divided among those who map them) and ``swap`` of a process, bytes."""
    return _kib(f"/proc/{pid}/smaps_rollup", _PROCESS)


def workers(pids: Iterable[int]) -> Reading:
    """Return how many loader workers live, and their ``rss`` and ``pss`` summed; None where none of them tells."""
    alive = [one for one in map(process, pids) if one["rss"] is not None]
    sums: Reading = {"workers": len(alive)}
    for name in ("rss", "pss"):
        told = [size for one in alive if (size := one[name]) is not None]
        sums[f"workers_{name}"] = sum(told) if told else None
    return sums


def shared() -> Reading:
    """Return size and use of shared memory, through which loader workers hand over their batches, bytes."""
    try:
        told = os.statvfs(SHARED)
    except OSError:
        return {"shm_used": None, "shm_size": None}
    return {
        "shm_used": (told.f_blocks - told.f_bfree) * told.f_frsize,
        "shm_size": told.f_blocks * told.f_frsize,
    }


def machine() -> Reading:
    """Return what of the machine's memory can be had without swapping, and all of it, bytes."""
    return _kib("/proc/meminfo", _MACHINE)


class Cgroup:
    """The control group with the least limit among those this process is in.

    Its use leaves out the file cache that the kernel drops before it kills anybody.
    """

    def __init__(self, root: Path = CGROUPS, member: Path = Path("/proc/self/cgroup")) -> None:
        self._folder: Path | None = None
        self._limit: int | None = None
        machine_has = machine()["total"]
        for folder in _groups(root, member):
            limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")  # version 2, version 1
            small = limit is not None and (machine_has is None or limit < machine_has)
            if limit is not None and small and limit < (self._limit or limit + 1):
                self._folder, self._limit = folder, limit

    def read(self) -> Reading:
        """Return ``cgroup_used`` and ``cgroup_limit``, None twice where no limit is less than the machine's memory."""
        if self._folder is None:
            return {"cgroup_used": None, "cgroup_limit": None}
        used = _number(self._folder / "memory.current") or _number(self._folder / "memory.usage_in_bytes")
        return {
            "cgroup_used": None if used is None else max(0, used - _cache(self._folder)),
            "cgroup_limit": self._limit,
        }


def _groups(root: Path, member: Path) -> Iterable[Path]:
    """Yield the memory groups of this process, from its own up to the root."""
    try:
        lines = member.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            top = root / controllers
            below = Path(path.lstrip("/"))
            yield from (top / part for part in (below, *below.parents) if (top / part).is_dir())


def _cache(folder: Path) -> int:
    """Return the bytes of file cache in a group, its subgroups included."""
    try:
        told = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 0
    parts = ("inactive_file", "active_file")
    return sum(int(told.get(f"total_{part}", told.get(part, 0))) for part in parts)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # 'max'
        return None


def _kib(path: str, names: dict[bytes, str]) -> Reading:
    """Return the lines of a file that tell KiB, in bytes; None for what it does not tell."""
    found: Reading = dict.fromkeys(names.values())
    try:
        with open(path, "rb") as file:
            for line in file:
                words = line.split()
                if words and words[0] in names:
                    found[names[words[0]]] = int(words[1]) * _KIB
    except (OSError, ValueError):
        pass
    return found
