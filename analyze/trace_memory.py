"""The allocator's events of a trace as memory of its devices: who allocated what was alive, in which phase.

A block's label is the innermost operator around its allocation; its category follows from the phase it was allocated
in and the phase it was freed in (``_category``). A trace tells nothing about blocks from before the window but, on
accelerators, their sum.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..ingest.capture import Capture, sql
from .enclosing import NONE, Around, around
from .memory_tables import Label, Memory, of_blocks
from .replay import Ints, Replay, replay

PHASES = ("", "forward", "input", "optimizer", "backward")  # by number, as capture_memory_spans tells them
_KEPT, _UNSEEN = len(PHASES), NONE  # instead of a phase: not freed in the window; not allocated in it
_ACCUMULATE = "torch::autograd::AccumulateGrad"
BATCH_ROWS = 65_536


def trace_memory(capture: Capture, events: pa.Table) -> list[Memory]:
    """Return the memory of a capture's devices.

    Args:
        capture: The capture.
        events: Its allocator events, as ``capture_memory`` has them.
    """
    events = events.filter(pa.compute.and_(events["address"].is_valid(), events["size"].is_valid()))
    if not len(events):
        return []
    found = around(capture.con.sql(sql("capture_memory_spans", __package__)).to_arrow_reader(BATCH_ROWS))
    callers = Callers(capture, found, events["event_id"].to_numpy())
    device = events["device"].combine_chunks().dictionary_encode()
    codes, names = device.indices.to_numpy(), device.dictionary.to_pylist()
    return [_device(name, events, np.flatnonzero(codes == names.index(name)), callers) for name in sorted(names)]


class Callers:
    """Of each allocator event the phase it happened in, and the name of the span around it."""

    def __init__(self, capture: Capture, found: Around, event_id: Ints) -> None:
        at = np.minimum(np.searchsorted(found.event_id, event_id), max(len(found.event_id) - 1, 0))
        told = found.event_id[at] == event_id if len(found.event_id) else np.zeros(len(event_id), bool)
        span = np.where(told, found.span[at], NONE)
        self.phase = np.where(told, found.phase[at], 0)
        self.names, self.name = _names(capture, span)


def _names(capture: Capture, span: Ints) -> tuple[list[str], Ints]:
    """Return the different names of spans, '' for none, and for each span the number of its name."""
    ids, of = np.unique(span, return_inverse=True)
    capture.con.register("spans_wanted", pa.table({"event_id": ids}))
    rows = capture.con.sql(
        "select coalesce(name, '') as name from spans_wanted left join events using (event_id) order by event_id"
    ).to_arrow_table()
    capture.con.unregister("spans_wanted")
    names = rows["name"].combine_chunks().dictionary_encode()
    return names.dictionary.to_pylist(), names.indices.to_numpy()[of]


def _device(name: str, events: pa.Table, mine: Ints, callers: Callers) -> Memory:
    size, address = (events[column].to_numpy()[mine] for column in ("size", "addr"))
    lives = replay(np.sign(size).astype(np.int8), address, abs(size))
    number, labels = _labels(lives, mine, callers)
    total = events["allocated"][int(mine[0])].as_py()
    rest = max(total - int(lives.live()[1]), 0) if total is not None else 0
    return of_blocks(name, lives, number, labels, events["t_ns"].to_numpy()[mine], rest)


def _labels(lives: Replay, mine: Ints, callers: Callers) -> tuple[Ints, list[Label]]:
    """Return the number of each block's label, and the labels."""
    seen, freed = lives.born >= 0, lives.died < lives.n
    born, died = mine[np.where(seen, lives.born, 0)], mine[np.where(freed, lives.died, 0)]
    came = np.where(seen, callers.phase[born], _UNSEEN)
    went = np.where(freed, callers.phase[died], _KEPT)
    place = np.where(seen, callers.name[born], 0)
    shape = (len(PHASES) + 1, len(PHASES) + 1, len(callers.names))
    kinds, of = np.unique(np.ravel_multi_index((came - _UNSEEN, went, place), shape), return_inverse=True)
    labels: dict[Label, int] = {}
    numbers = [
        labels.setdefault(_label(came + _UNSEEN, went, name, callers.names), len(labels))
        for came, went, name in zip(*(part.tolist() for part in np.unravel_index(kinds, shape)), strict=True)
    ]
    return np.array(numbers, np.int64)[of], list(labels)


def _label(came: int, went: int, name: int, names: list[str]) -> Label:
    if came == _UNSEEN:
        return "unknown", "before", "", ""
    phase, place = PHASES[came], names[name]
    return _category(phase, None if went == _KEPT else PHASES[went], place), phase, place, ""


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
