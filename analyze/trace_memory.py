"""The allocator's events of a trace as memory of its devices: who allocated what was alive, in which phase.

A block's label is the innermost operator around its allocation; its category follows from the phase it was allocated
in and the phase it was freed in (``_category``). A trace tells nothing about blocks from before the window but, on
accelerators, their sum.
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from ..ingest.capture import Capture, sql
from .memory_tables import Label, Memory, of_blocks
from .replay import Ints, replay

_OPTIMIZER = ("Optimizer.step#", "Optimizer.zero_grad#")
_BACKWARD = "autograd::engine::evaluate_function"
_ACCUMULATE = "torch::autograd::AccumulateGrad"
MOST_SPANS = 250_000  # host spans of a capture whose allocations are attributed: the replay holds them all in memory


class Callers:
    """The host spans that allocations happen in."""

    def __init__(self, spans: pa.Table) -> None:
        self.name: list[str] = spans["name"].to_pylist()
        self._kind: list[str] = spans["kind"].to_pylist()
        self._start = spans["start_ns"].to_numpy()
        self._end = spans["end_ns"].to_numpy()
        thread = np.array(spans["thread"].to_pylist(), object)
        edges = [0, *(np.flatnonzero(thread[1:] != thread[:-1]) + 1).tolist(), len(thread)]
        self._of = {thread[a]: (a, b) for a, b in itertools.pairwise(edges) if b > a}
        self.parent = np.full(len(thread), -1, np.int64)
        self.phase = [""] * len(thread)
        self._nest()

    def _nest(self) -> None:
        open_: list[int] = []
        firsts = {first for first, _ in self._of.values()}
        for i, name in enumerate(self.name):
            if i in firsts:
                open_.clear()
            while open_ and self._end[open_[-1]] <= self._start[i]:
                open_.pop()
            parent = open_[-1] if open_ else -1
            self.parent[i] = parent
            self.phase[i] = _phase(name, self._kind[i], self.phase[parent] if open_ else "")
            open_.append(i)

    def around(self, t_ns: Ints, thread: list[str | None]) -> Ints:
        """Return the innermost span around each moment on its thread, -1 where there is none."""
        found = np.full(len(t_ns), -1, np.int64)
        threads = np.array(thread, object)
        for name, (first, last) in self._of.items():
            mine = np.flatnonzero(threads == name)
            at = first + np.searchsorted(self._start[first:last], t_ns[mine], "right") - 1
            at[at < first] = -1
            while (over := (at >= 0) & (self._end[at] < t_ns[mine])).any():
                at[over] = self.parent[at[over]]
            found[mine] = at
        return found


def _phase(name: str, kind: str, around: str) -> str:
    if kind == "dataloader":
        return "input"
    if name.startswith(_OPTIMIZER):
        return "optimizer"
    if name.startswith(_BACKWARD):
        return "backward"
    return around or ("forward" if kind == "operator" else "")


def too_large(capture: Capture) -> bool:
    """Whether a capture has more host spans than the attribution of its memory takes."""
    spans = capture.scalar("select count(*) from events where kind in ('operator', 'annotation', 'dataloader', 'step')")
    return bool(spans > MOST_SPANS)


def trace_memory(capture: Capture, events: pa.Table) -> list[Memory]:
    """Return the memory of a capture's devices; nothing for a capture that is too large.

    Args:
        capture: The capture.
        events: Its table ``memory``.
    """
    con = capture.con
    if not len(events) or too_large(capture):
        return []
    callers = Callers(con.sql(sql("capture_memory_callers", __package__)).to_arrow_table())
    thread = con.sql(sql("capture_memory_threads", __package__)).to_arrow_table()["thread"].to_pylist()
    caller = callers.around(events["t_ns"].to_numpy(), thread)
    device = np.array(events["device"].to_pylist(), object)
    told = np.array(events["address"].is_valid()) & np.array(events["size"].is_valid())
    return [
        _device(name, events.filter(pa.array(mine)), caller[mine], callers)
        for name in sorted(set(device[told]))
        if (mine := told & (device == name)).any()
    ]


def _device(name: str, events: pa.Table, caller: Ints, callers: Callers) -> Memory:
    size = events["size"].to_numpy()
    lives = replay(
        np.sign(size).astype(np.int8), [int(a, 16) for a in events["address"].to_pylist()], abs(size).tolist()
    )
    labels: dict[Label, int] = {}
    number = [
        labels.setdefault(_label(callers, caller, born, died, lives.n), len(labels))
        for born, died in zip(lives.born.tolist(), lives.died.tolist(), strict=True)
    ]
    total = events["allocated"][0].as_py()
    rest = max(total - int(lives.live()[1]), 0) if total is not None else 0
    return of_blocks(name, lives, np.array(number, np.int64), list(labels), events["t_ns"].to_numpy(), rest)


def _label(callers: Callers, caller: Ints, born: int, died: int, n: int) -> Label:
    if born < 0:
        return "unknown", "before", "", ""
    at = int(caller[born])
    place = callers.name[at] if at >= 0 else ""
    phase = callers.phase[at] if at >= 0 else ""
    freed_by = int(caller[died]) if died < n else -1
    freed = None if died == n else callers.phase[freed_by] if freed_by >= 0 else ""
    return _category(phase, freed, place), phase, place, ""


def _category(phase: str, freed: str | None, place: str) -> str:
    """Return what a block was: by the phase it came in and the one it went in (None: not in the window)."""
    if phase == "input":
        return "input"
    if phase == "optimizer":
        return "optimizer" if freed is None else "temporary"
    if phase == "backward":
        return (
            "gradient" if freed == "optimizer" or place == _ACCUMULATE else "temporary" if freed == phase else "unknown"
        )
    if phase == "forward":
        return {"backward": "activation", "forward": "temporary"}.get(freed or "", "unknown")
    return "unknown"
