"""Memory snapshots written by hand, in the shape of ``torch.cuda.memory._snapshot()``."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

MiB = 2**20


def frame(name: str, line: int = 1, filename: str = "/job/train.py") -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line}


def event(action: str, addr: int, size: int, at_us: int, frames: list[dict[str, Any]] | None = None, **more: Any):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": at_us, "frames": frames or [], **more}


def segment(
    address: int, blocks: list[tuple[int, str]], device: int = 0, pool: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    """Return a segment of blocks (size, state); the first one's address is the segment's."""
    made, at = [], address
    for size, state in blocks:
        made.append({"address": at, "size": size, "requested_size": size, "state": state, "frames": []})
        at += size
    held = sum(size for size, state in blocks if state != "inactive")
    totals = {"total_size": at - address, "allocated_size": held, "active_size": held, "requested_size": held}
    place = {"device": device, "address": address, "stream": 0, "segment_type": "large", "segment_pool_id": pool}
    return {**place, **totals, "is_expandable": False, "frames": [], "blocks": made}


def write(path: Path, segments: list[dict[str, Any]], *traces: list[dict[str, Any]], protocol: int = 4) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    root = {"segments": segments, "device_traces": list(traces), "allocator_settings": {}, "external_annotations": []}
    path.write_bytes(pickle.dumps(root, protocol))
    return str(path)
