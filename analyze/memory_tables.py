"""The memory tables of one source: the peak and what was alive at it, the lines over time, the state at the end.

Whatever tells about memory (snapshots, timelines, the allocator's events of a trace) becomes ``Memory``, one a device.
The rest is the same for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..ingest.schema import MEMORY_ALIVE, MEMORY_LEFT, MEMORY_LINES, MEMORY_PEAKS
from .replay import Ints, Replay

POINTS = 400  # of a line; of every stretch of time its highest moment is kept, so the peak is always a point
SCHEMAS = {
    "memory_peaks": MEMORY_PEAKS,
    "memory_alive": MEMORY_ALIVE,
    "memory_left": MEMORY_LEFT,
    "memory_lines": MEMORY_LINES,
}


class Label(NamedTuple):
    """What is told of a block, '' or None where it is not."""

    category: str
    phase: str = ""
    place: str = ""
    stack: str = ""
    module: str = ""
    step: int | None = None  # in which it was allocated


BEFORE = Label("unknown", "before")  # there before the recording began
Held = tuple[Label, int | None, int]  # what, how many blocks, bytes


@dataclass
class Memory:
    """A device's memory over a recording: moments before the first event and after each.

    Attributes:
        device: ``cpu``, ``cuda:0``, …
        t_ns: Of each moment, empty without events.
        live: Bytes at each moment.
        line: The same of one category at a few moments.
        alive: What was there at a moment; sums to ``live``.
        categories: All there are.
        step: The step of each moment, -1 outside of steps; None when nothing tells.
        more: Further columns of MEMORY_PEAKS.
    """

    device: str
    t_ns: Ints
    live: Ints
    line: Callable[[str, Ints], Ints]
    alive: Callable[[int], list[Held]]
    categories: Sequence[str]
    step: Ints | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """How many there were."""
        return len(self.live) - 1


def memory_tables(capture_id: int, devices: Sequence[Memory]) -> dict[str, pa.Table]:
    """Return ``memory_peaks``, ``memory_alive``, ``memory_left`` and ``memory_lines`` of a source."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
    for memory in devices:
        common = {"capture_id": capture_id, "device": memory.device}
        live, moment = memory.live, int(memory.live.argmax())
        times = np.maximum.accumulate(memory.t_ns, out=memory.t_ns)  # events are in order; a stamp may lag
        start, end, at_peak = (int(times[i]) for i in (0, -1, moment)) if len(times) else (None, None, None)
        peak = {"events": memory.events, "start_ns": start, "end_ns": end, "peak": int(live[moment])}
        step = -1 if memory.step is None else int(memory.step[moment])
        peak |= {"peak_ns": at_peak, "peak_step": step if step >= 0 else None}
        peak |= {"before": int(live[0]), "at_end": int(live[-1])}
        rows["memory_peaks"].append({**common, **peak, **memory.more})
        rows["memory_alive"] += [{**common, **_row(*one)} for one in memory.alive(moment)]
        rows["memory_left"] += [{**common, **_row(*one)} for one in memory.alive(memory.events)]
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
        t_ns: When each moment was.
        rest: Bytes that were there all the time, of which only the sum is known.
    """
    category = np.array([one.category for one in labels], object)

    def line(name: str, at: Ints) -> Ints:
        return lives.live_at(at, (category == name)[label]) + (rest if name == "unknown" else 0)

    def alive(moment: int) -> list[Held]:
        mask = lives.alive(moment)
        count = np.bincount(label[mask], minlength=len(labels))
        total = np.zeros(len(labels), np.int64)
        np.add.at(total, label[mask], lives.size[mask])
        held: list[Held] = [(labels[i], int(count[i]), int(total[i])) for i in np.flatnonzero(count).tolist()]
        return [*held, (BEFORE, None, rest)] if rest else held

    names = sorted({*category.tolist(), *(["unknown"] if rest else [])})
    live = lives.live()
    live += rest
    return Memory(device, t_ns, live, line, alive, names, more={"unmatched": lives.unmatched})


def highest(live: Ints, times: Ints) -> Ints:
    """Return, in order, the highest moment of each of ``POINTS`` equal stretches of time, and the last."""
    edges = np.searchsorted(times, np.linspace(times[0], times[-1], POINTS + 1)[1:-1].astype(np.int64), "right")
    cuts = np.unique(np.concatenate(([0], edges, [len(times)])))
    chosen = [int(a + live[a:b].argmax()) for a, b in itertools.pairwise(cuts)]
    return np.array(chosen if times[chosen[-1]] == times[-1] else [*chosen, len(times) - 1], np.int64)


def _lines(memory: Memory, times: Ints) -> list[dict[str, Any]]:
    if not len(times):
        return []
    at = highest(memory.live, times)
    rows = []
    for name in memory.categories:
        line = memory.line(name, at).tolist()
        if any(line):
            stamps = times[at].tolist()
            rows += [{"t_ns": t, "category": name, "bytes": n} for t, n in zip(stamps, line, strict=True)]
    return rows


def _row(label: Label, blocks: int | None, size: int) -> dict[str, Any]:
    told = {name: None if text == "" else text for name, text in label._asdict().items()}
    return {**told, "blocks": blocks, "bytes": size}
