"""Who wrote a trace: rank, world, host and devices, from the file's header, else from its name."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

# In this order: `rank-3`, `rank3`, `rank_3`, `worker3`, `..._3.`. More than five digits is a date or an id, not a rank.
_NAME_PATTERNS = (
    re.compile(r"rank[-_=]?(\d{1,5})(?!\d)", re.IGNORECASE),
    re.compile(r"worker[-_]?(\d{1,5})(?!\d)", re.IGNORECASE),
    re.compile(r"_(\d{1,5})\.(?!\d{10,}\.pt\.trace)"),  # tensorboard_trace_handler writes host_pid.time.pt.trace.json
)


def whole(value: Any) -> int | None:
    """Return a header's value as a non-negative integer, None when it is not one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) < 20 and value.strip().isdecimal():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def rank_from_name(source: str) -> int | None:
    """Return the rank that a file's name carries, None when it carries none."""
    name = PurePosixPath(source).name
    for one in _NAME_PATTERNS:
        found = one.search(name)
        if found:
            return int(found.group(1))
    return None


def identity(header: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the columns of ``sources`` that tell who wrote the trace; None for what neither header nor name tells."""
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    ours = header.get("stepscope")
    ours = ours if isinstance(ours, dict) else {}
    devices = header.get("deviceProperties")
    devices = [one for one in devices if isinstance(one, dict)] if isinstance(devices, list) else None
    first = devices[0] if devices else {}

    rank = whole(distributed.get("rank"))
    if rank is None:
        rank = whole(ours.get("rank"))
    rank_source = "distributedInfo" if rank is not None else None
    if rank is None:
        rank = rank_from_name(source)
        rank_source = "filename" if rank is not None else None
    world = whole(distributed.get("world_size"))
    first_step = whole(ours.get("first_step"))
    return {
        "claimed_rank": rank,
        "rank_source": rank_source,
        "world_size": world if world is not None else whole(ours.get("world_size")),
        "host": _text(header.get("host_name")) or _text(ours.get("host")),
        "devices": None if devices is None else len(devices),
        "device_name": _text(first.get("name")),
        "device_memory": whole(first.get("totalGlobalMem")),
        "backend": _text(distributed.get("backend")),
        "session": _text(ours.get("session")),
        "first_job_step": first_step if first_step is not None and first_step < 1 << 62 else None,
    }


def finished_steps(header: dict[str, Any]) -> int | None:
    """Return how many steps of a window our collector saw finished, None for others' traces."""
    ours = header.get("stepscope")
    return whole(ours.get("steps")) if isinstance(ours, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
