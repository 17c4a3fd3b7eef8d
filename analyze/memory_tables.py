"""The memory tables of one source: the peak and what was alive at it, the lines over time, the state at the end.

Whatever tells about memory (snapshots, timelines, the allocator's events of a trace) becomes ``Memory``, one a device.
The rest is the same for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..ingest.schema import MEMORY_ALIVE, MEMORY_LINES, MEMORY_PEAKS
from .replay import Ints, Replay

POINTS = 400  # of a line; of every stretch of time its highest moment is kept, so the peak is always a point
SCHEMAS = {"memory_peaks": MEMORY_PEAKS, "memory_alive": MEMORY_ALIVE, "memory_lines": MEMORY_LINES}

Label = tuple[str, str, str, str]  # category, phase, place, stack; '' where not told
Held = tuple[Label, int | None, int]  # what, how many blocks, bytes


@dataclass
class Memory:
    """A device's memory over a recording of n events: n + 1 moments, before the first event and after each.

    Attributes:
        device: ``cpu``, ``cuda:0``, …
        t_ns: Of each event.
        live: Bytes at each moment.
        line: The same of one category at a few moments.
        alive: What was there at a moment; sums to ``live``.
        categories: All there are.
        more: Further columns of MEMORY_PEAKS.
    """

    device: str
    t_ns: Ints
    live: Ints
    line: Callable[[str, Ints], Ints]
    alive: Callable[[int], list[Held]]
    categories: Sequence[str]
    more: dict[str, Any] = field(default_factory=dict)


def memory_tables(capture_id: int, devices: Sequence[Memory]) -> dict[str, pa.Table]:
    """Return ``memory_peaks``, ``memory_alive`` and ``memory_lines`` of a source."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
    for memory in devices:
        common = {"capture_id": capture_id, "device": memory.device}
        live, moment = memory.live, int(memory.live.argmax())
        times = np.concatenate((memory.t_ns[:1], memory.t_ns))
        start, end, at_peak = (int(times[i]) for i in (0, -1, moment)) if len(times) else (None, None, None)
        peak = {"events": len(memory.t_ns), "start_ns": start, "end_ns": end, "peak": int(live[moment])}
        peak |= {"peak_ns": at_peak, "before": int(live[0]), "at_end": int(live[-1])}
        rows["memory_peaks"].append({**common, **peak, **memory.more})
        rows["memory_alive"] += [{**common, **_row(*one)} for one in memory.alive(moment)]
        rows["memory_lines"] += [{**common, **row} for row in _lines(memory, times)]
    return {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in SCHEMAS.items()}


def of_blocks(
    device: str, lives: Replay, label: npt.NDArray[np.integer[Any]], labels: Sequence[Label], t_ns: Ints, rest: int = 0
) -> Memory:
    """Return the memory of blocks whose lives are known.

    Args:
        device: Whose it is.
        lives: The blocks.
        label: The number of each block's label.
        labels: The labels.
        t_ns: When each event was.
        rest: Bytes that were there all the time, of which only the sum is known.
    """
    category = np.array([one[0] for one in labels], object)

    def line(name: str, at: Ints) -> Ints:
        return lives.live_at(at, (category == name)[label]) + (rest if name == "unknown" else 0)

    def alive(moment: int) -> list[Held]:
        mask = lives.alive(moment)
        count = np.bincount(label[mask], minlength=len(labels))
        total = np.zeros(len(labels), np.int64)
        np.add.at(total, label[mask], lives.size[mask])
        held: list[Held] = [(labels[i], int(count[i]), int(total[i])) for i in np.flatnonzero(count).tolist()]
        return [*held, (("unknown", "before", "", ""), None, rest)] if rest else held

    names = sorted({*category.tolist(), *(["unknown"] if rest else [])})
    return Memory(device, t_ns, lives.live() + rest, line, alive, names, {"unmatched": lives.unmatched})


def highest(live: Ints, times: Ints) -> Ints:
    """Return, in order, the highest moment of each of ``POINTS`` equal stretches of time, and the last."""
    edges = np.searchsorted(times, np.linspace(times[0], times[-1], POINTS + 1)[1:-1].astype(np.int64), "right")
    cuts = np.unique(np.concatenate(([0], edges, [len(times)])))
    chosen = [int(a + live[a:b].argmax()) for a, b in itertools.pairwise(cuts)]
    return np.array(chosen if times[chosen[-1]] == times[-1] else [*chosen, len(times) - 1], np.int64)


def _lines(memory: Memory, times: Ints) -> list[dict[str, Any]]:
    if not len(times):
        return []
    times = np.maximum.accumulate(times)  # events are in order; a stamp may lag
    at = highest(memory.live, times)
    rows = []
    for name in memory.categories:
        line = memory.line(name, at).tolist()
        if any(line):
            stamps = times[at].tolist()
            rows += [{"t_ns": t, "category": name, "bytes": n} for t, n in zip(stamps, line, strict=True)]
    return rows


def _row(label: Label, blocks: int | None, size: int) -> dict[str, Any]:
    told = {name: text or None for name, text in zip(("category", "phase", "place", "stack"), label, strict=True)}
    return {**told, "blocks": blocks, "bytes": size}
