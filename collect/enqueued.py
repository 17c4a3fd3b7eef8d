"""What torch's flight recorder knows of the collectives that a process enqueued: group, number, size, moment.

gloo's spans in a trace tell neither group nor sequence number. The recorder, which torch keeps of the last 2000
collectives by default, does.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

Told = dict[str, Any]  # a row a collective, as columns


def enqueued(since_ns: int) -> Told | None:
    """Return the collectives that were enqueued since a moment (ns since the epoch), None when nobody recorded any.

    ``created_ns`` is when each was enqueued, ``inputs`` and ``outputs`` count elements.
    """
    recorder = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace", None)
    if recorder is None:
        return None
    entries = pickle.loads(recorder(includeStackTraces=False)).get("entries", [])  # our own process wrote it
    mine = [one for one in entries if one["time_created_ns"] >= since_ns and not one["is_p2p"]]
    if not mine:
        return None
    return {
        "group": [one["process_group"][0] for one in mine],
        "seq": [one["collective_seq_id"] for one in mine],
        "name": [one["profiling_name"] for one in mine],
        "created_ns": [one["time_created_ns"] for one in mine],
        "inputs": [_elements(one["input_sizes"]) for one in mine],
        "outputs": [_elements(one["output_sizes"]) for one in mine],
    }


def _elements(shapes: list[list[int]]) -> int:
    total = 0
    for shape in shapes:
        elements = 1
        for size in shape:
            elements *= size
        total += elements if shape else 0
    return total
